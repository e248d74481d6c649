//! Two stores on one PostgreSQL stand for two processes. On SQLite one store stands alone with many callers.

use crate::fixture::{AddAll, Fixture, Opened, Take, wait};
use crate::on_every_engine;
use guerdon_harness::TestEngine;
use guerdon_store::{Fault, StoreOptions};

on_every_engine! {
    a_limit_holds_against_both
    sorted_groups_from_both_do_not_deadlock
    unsorted_groups_are_retried_until_they_pass
    a_locked_row_fails_only_the_command_that_wants_it
}

fn open_all(fixture: &Fixture) -> Vec<Opened> {
    let processes = if fixture.database.engine == TestEngine::Postgres { 2 } else { 1 };
    (1..=processes)
        .map(|seed| fixture.open_with(&StoreOptions { seed, group_max: 16, ..StoreOptions::default() }))
        .collect()
}

fn a_limit_holds_against_both(fixture: &Fixture) {
    let stores = open_all(fixture);
    fixture.database.sql().run("INSERT INTO probe (id, value) VALUES (1, 100)");
    let pending: Vec<_> = (0..600).map(|n| stores[n % stores.len()].store.submit(Take(1)).unwrap()).collect();
    let taken = pending.into_iter().map(|pending| wait(pending).unwrap()).filter(|taken| *taken).count();
    assert_eq!(taken, 100);
    assert_eq!(fixture.database.sql().number("SELECT value FROM probe WHERE id = 1"), 0);
}

/// Every command touches the same eight rows, starting at another one each time.
fn add_from_both(fixture: &Fixture, commands: i64, sorted: bool) -> u64 {
    let stores = open_all(fixture);
    let pending: Vec<_> = (0..commands)
        .map(|n| {
            let ids = (0..8).map(|step| if n % 2 == 0 { (n + step) % 8 } else { (n - step).rem_euclid(8) });
            let store = &stores[usize::try_from(n).unwrap() % stores.len()].store;
            store.submit(AddAll { ids: ids.collect(), sorted }).unwrap()
        })
        .collect();
    for pending in pending {
        wait(pending).unwrap();
    }
    let sum = fixture.database.sql().number("SELECT CAST(SUM(value) AS BIGINT) FROM probe");
    assert_eq!(sum, commands * 8, "every addition once");
    stores.iter().map(|opened| opened.metric("retried_groups_total")).sum()
}

fn sorted_groups_from_both_do_not_deadlock(fixture: &Fixture) {
    assert_eq!(add_from_both(fixture, 400, true), 0, "no deadlock, so nothing to retry");
}

fn unsorted_groups_are_retried_until_they_pass(fixture: &Fixture) {
    // Deadlocks may or may not come; whatever comes, every addition counts once.
    add_from_both(fixture, 64, false);
}

fn a_locked_row_fails_only_the_command_that_wants_it(fixture: &Fixture) {
    if fixture.database.engine == TestEngine::Sqlite {
        return; // SQLite has no locks on rows.
    }
    let opened = fixture.open();
    let mut sql = fixture.database.sql();
    sql.run("INSERT INTO probe (id, value) VALUES (1, 1)");
    sql.run("BEGIN; SELECT value FROM probe WHERE id = 1 FOR UPDATE");
    let held = opened.hold();
    let wanted = |n: i64| if n == 3 { 1 } else { 100 + n };
    let pending: Vec<_> = (0..10).map(|n| opened.store.submit(Take(wanted(n))).unwrap()).collect();
    held.release();
    for (n, pending) in (0..).zip(pending) {
        let outcome = wait(pending);
        assert_eq!(matches!(outcome, Err(Fault::TimedOut(_))), n == 3, "{n}: {outcome:?}");
    }
    sql.release();
    assert_eq!(opened.run(Take(1)), Ok(true));
}
