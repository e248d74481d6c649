//! Group commit: what is answered is there, what failed left nothing, and nobody pays for a neighbour.

use crate::fixture::{AddAll, Bulk, COUNT, Fixture, Insert, Then, wait};
use crate::on_every_engine;
use guerdon_store::{Command, Fault, Health, Priority, Statement, StoreOptions, Tx, each};
use std::time::Duration;

on_every_engine! {
    every_statement_prepares
    a_group_is_committed_together
    only_the_culprit_of_a_group_fails
    a_panic_fails_its_command_alone
    a_constraint_fails_its_command_alone
    a_failed_command_leaves_nothing
    reads_see_what_was_answered
    a_reader_cannot_write
    a_read_that_lasts_too_long_is_cut_off
    a_full_queue_refuses
    closing_answers_what_was_accepted
    background_work_goes_in_chunks
    the_order_of_a_batch_is_kept_in_its_answers
    a_command_that_ignores_a_failed_statement_has_failed
    a_backlog_of_other_work_does_not_starve_the_intake
    a_surge_does_not_lock_operators_out
}

fn every_statement_prepares(fixture: &Fixture) {
    let opened = fixture.open();
    let all = guerdon_store::statements(opened.store.engine());
    assert!(all.len() > 10, "the list of statements is not empty");
    let checked = opened.store.read(move |tx| {
        for statement in &all {
            tx.prepare(statement).map_err(|fault| Fault::Statement(format!("{statement:?}: {fault}")))?;
        }
        Ok(all.len())
    });
    checked.unwrap().blocking_recv().unwrap().unwrap();
}

fn a_group_is_committed_together(fixture: &Fixture) {
    let opened = fixture.open();
    let before = opened.metric("group_commands_count");
    let held = opened.hold();
    let pending: Vec<_> = (0..50).map(|id| opened.store.submit(Insert::row(id)).unwrap()).collect();
    held.release();
    for (id, pending) in (0..).zip(pending) {
        assert_eq!(wait(pending), Ok(id));
    }
    assert_eq!(fixture.count(), 50);
    assert_eq!(
        opened.metric("group_commands_count") - before,
        2,
        "the holder's group, and all of ours in one"
    );
}

/// Fifty commands in one group, of which the eighth ends as `then` says.
fn group_with_a_culprit(fixture: &Fixture, then: Then) -> Fault {
    let opened = fixture.open();
    let held = opened.hold();
    let insert = |id| Insert { then: if id == 7 { then } else { Then::Succeed }, ..Insert::row(id) };
    let pending: Vec<_> = (0..50).map(|id| opened.store.submit(insert(id)).unwrap()).collect();
    held.release();
    let outcomes: Vec<_> = pending.into_iter().map(wait).collect();
    for (id, outcome) in (0..).zip(&outcomes) {
        assert_eq!(outcome.is_ok(), id != 7, "{id}: {outcome:?}");
    }
    assert_eq!(fixture.count(), 49);
    assert_eq!(opened.metric("isolated_groups_total"), 1);
    assert_eq!(opened.run(Insert::row(1_000)), Ok(1_000), "the committer goes on");
    outcomes[7].clone().unwrap_err()
}

fn only_the_culprit_of_a_group_fails(fixture: &Fixture) {
    assert!(matches!(group_with_a_culprit(fixture, Then::Fail), Fault::Inconsistent(_)));
}

fn a_panic_fails_its_command_alone(fixture: &Fixture) {
    assert_eq!(group_with_a_culprit(fixture, Then::Panic), Fault::Panicked);
}

fn a_constraint_fails_its_command_alone(fixture: &Fixture) {
    let opened = fixture.open();
    let held = opened.hold();
    let values = [1, 1, -5, 1, 1];
    let pending: Vec<_> = (0..)
        .zip(values)
        .map(|(id, value)| opened.store.submit(Insert { value, ..Insert::row(id) }).unwrap())
        .collect();
    held.release();
    let outcomes: Vec<_> = pending.into_iter().map(wait).collect();
    assert!(matches!(outcomes[2], Err(Fault::Statement(_))), "{:?}", outcomes[2]);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 4);
    assert_eq!(fixture.count(), 4);
}

fn a_failed_command_leaves_nothing(fixture: &Fixture) {
    let opened = fixture.open();
    for then in [Then::Fail, Then::Panic] {
        let outcome = opened.run(Insert { then, ..Insert::row(1) });
        assert!(outcome.is_err());
        assert_eq!(fixture.count(), 0);
    }
    assert_eq!(opened.store.committer_health(), Health::Well);
}

fn reads_see_what_was_answered(fixture: &Fixture) {
    let opened = fixture.open();
    for id in 0..20 {
        opened.run(Insert::row(id)).unwrap();
        let read = opened.store.read(|tx| tx.query_one(&COUNT, &[], |row| row.int(0))).unwrap();
        assert_eq!(read.blocking_recv().unwrap(), Ok(Some(id + 1)));
    }
}

static WRITE: Statement = Statement::portable("INSERT INTO probe (id, value) VALUES (1, 1)");

fn a_reader_cannot_write(fixture: &Fixture) {
    let opened = fixture.open();
    let read = opened.store.read(|tx| tx.execute(&WRITE, &[])).unwrap();
    assert!(read.blocking_recv().unwrap().is_err());
    assert_eq!(fixture.count(), 0);
}

static FOREVER: Statement = Statement::portable(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT CAST(COUNT(*) AS BIGINT) FROM n",
);

fn a_read_that_lasts_too_long_is_cut_off(fixture: &Fixture) {
    let opened = fixture.open();
    let read = opened.store.read(|tx| tx.query_one(&FOREVER, &[], |row| row.int(0))).unwrap();
    assert!(matches!(read.blocking_recv().unwrap(), Err(Fault::TimedOut(_))));
    let read = opened.store.read(|tx| tx.query_one(&COUNT, &[], |row| row.int(0))).unwrap();
    assert_eq!(read.blocking_recv().unwrap(), Ok(Some(0)), "the reader goes on");
}

fn a_full_queue_refuses(fixture: &Fixture) {
    let opened = fixture.open_with(&StoreOptions { waiting_max: 8, ..StoreOptions::default() });
    let held = opened.hold();
    let accepted: Vec<_> = (0..8).map(|id| opened.store.submit(Insert::row(id)).unwrap()).collect();
    assert_eq!(opened.store.submit(Insert::row(99)).unwrap_err(), Fault::Busy);
    held.release();
    assert!(accepted.into_iter().all(|pending| wait(pending).is_ok()), "what was accepted is done");
    assert_eq!(fixture.count(), 8);
}

fn closing_answers_what_was_accepted(fixture: &Fixture) {
    let opened = fixture.open();
    let held = opened.hold();
    let pending: Vec<_> = (0..100).map(|id| opened.store.submit(Insert::row(id)).unwrap()).collect();
    let closer = std::thread::scope(|scope| {
        let closing = scope.spawn(|| opened.store.close());
        guerdon_harness::until("the store to refuse", Duration::from_secs(10), || {
            (opened.store.submit(Insert::row(500)).err() == Some(Fault::Stopping)).then_some(())
        });
        held.release();
        closing.join()
    });
    closer.unwrap();
    assert!(pending.into_iter().all(|pending| wait(pending).is_ok()));
    assert!(fixture.count() >= 100);
}

fn background_work_goes_in_chunks(fixture: &Fixture) {
    let opened = fixture.open();
    assert_eq!(opened.run(Bulk(2_001)), Err(Fault::TooManyRows { limit: 2_000 }));
    assert_eq!(fixture.count(), 0, "nothing of it");
    assert_eq!(opened.run(Bulk(2_000)), Ok(()));
}

fn the_order_of_a_batch_is_kept_in_its_answers(fixture: &Fixture) {
    let opened = fixture.open();
    let held = opened.hold();
    let pending: Vec<_> = [5, 3, 9, 1].map(|id| opened.store.submit(Insert::row(id)).unwrap()).into();
    let add = opened.store.submit(AddAll { ids: vec![9, 1], sorted: true }).unwrap();
    held.release();
    assert_eq!(pending.into_iter().map(wait).collect::<Result<Vec<_>, _>>(), Ok(vec![5, 3, 9, 1]));
    wait(add).unwrap();
}

/// Makes light of an error and says that all is well.
struct Careless;

impl Command for Careless {
    type Output = ();
    const NAME: &'static str = "careless";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        tx.execute(&WRITE, &[])?;
        let _ = tx.execute(&WRITE, &[]);
        each(batch, |_| Ok(()))
    }
}

fn a_command_that_ignores_a_failed_statement_has_failed(fixture: &Fixture) {
    let opened = fixture.open();
    assert!(matches!(opened.run(Careless), Err(Fault::Inconsistent(_))));
    assert_eq!(fixture.count(), 0);
    assert_eq!(opened.run(Insert::row(1)), Ok(1), "the committer goes on");
}

/// Something slow that runs beside the intake.
struct Slow;

impl Command for Slow {
    type Output = ();
    const NAME: &'static str = "slow";
    const PRIORITY: Priority = Priority::Background;
    fn apply(_: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        std::thread::park_timeout(Duration::from_millis(10));
        each(batch, |_| Ok(()))
    }
}

fn a_backlog_of_other_work_does_not_starve_the_intake(fixture: &Fixture) {
    let opened = fixture.open();
    let backlog: Vec<_> = (0..300).map(|_| opened.store.submit(Slow).unwrap()).collect();
    // Enough of it has waited beyond its patience by the time that this many have been served in between.
    for id in 0..30 {
        opened.run(Insert::row(id)).unwrap();
    }
    let left = backlog.into_iter().map(|mut slow| slow.try_recv().is_err()).filter(|waits| *waits).count();
    assert!(left > 150, "the intake waited for the backlog: only {left} are left of it");
}

fn a_surge_does_not_lock_operators_out(fixture: &Fixture) {
    let opened = fixture.open_with(&StoreOptions { waiting_max: 8, ..StoreOptions::default() });
    let held = opened.hold();
    let surge: Vec<_> = (0..8).map(|id| opened.store.submit(Insert::row(id)).unwrap()).collect();
    let operator = opened.store.submit(Careless).expect("there is room for those who have to stop the surge");
    held.release();
    assert!(surge.into_iter().all(|pending| wait(pending).is_ok()));
    assert!(wait(operator).is_err());
}
