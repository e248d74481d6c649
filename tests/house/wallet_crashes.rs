//! The wallet when something dies between its transactions, and the watchdog.

use crate::audit::assert_clean;
use crate::support::{BINARY, Cluster, at_once, for_every_setup};
use crate::wallet::{balance, deposit, new_key, person, transfer, two_people, until_entered};
use guerdon_harness::{Server, ServerOptions, TestEngine, until};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

for_every_setup! {
    killed_between_the_claim_and_the_work
    killed_between_the_work_and_the_answer
    killed_between_the_work_and_the_ledger
    a_deposit_that_broke_is_taken_over
    a_watchdog_in_a_hurry
}

/// Kills every server and starts as many again.
fn restart(cluster: &mut Cluster, settings: &[(&str, &str)]) {
    let count = cluster.servers.len();
    let mut options = ServerOptions::on(&cluster.database.url);
    for (name, value) in settings {
        options = options.with(name, value);
    }
    cluster.servers.drain(..).for_each(Server::kill);
    cluster.servers.extend((0..count).map(|_| Server::start(BINARY, &options)));
}

const NO_WATCHDOG: (&str, &str) = ("GUERDON_WALLET__WATCHDOG_INTERVAL", "1h");
const BUSY_WATCHDOG: (&str, &str) = ("GUERDON_WALLET__WATCHDOG_INTERVAL", "100ms");

fn killed_between_the_claim_and_the_work(engine: TestEngine, servers: usize) {
    let mut cluster =
        Cluster::start_with(engine, servers, &[NO_WATCHDOG, ("GUERDON_WALLET__TIMEOUT", "1ms")]);
    let (ann, bob) = two_people(&cluster);
    let api = person(&cluster, 0, "ann");
    let key = new_key(&api);
    cluster.database.sql().refuse_rows("core.transfer");
    let broken = transfer(&api, &key, ann, bob, "5").expect(500).json();
    assert_eq!((&broken["retryWithSameKey"], &broken["safeNewKey"]), (&json!(true), &json!(false)));
    // Its time is over, and only the watchdog may say so.
    for server in 0..servers {
        let answer = transfer(&person(&cluster, server, "ann"), &key, ann, bob, "5").expect(202);
        assert_eq!(answer.text, r#"{"status":"IN_PROGRESS"}"#);
    }
    assert_clean(&cluster.database);
    cluster.database.sql().allow_rows("core.transfer");
    restart(&mut cluster, &[BUSY_WATCHDOG]);
    let api = person(&cluster, 0, "ann");
    let ended = until("the watchdog", Duration::from_secs(30), || {
        let answer = transfer(&api, &key, ann, bob, "5");
        (answer.status != 202).then_some(answer)
    });
    let ended = ended.expect(422);
    assert_eq!((ended.code(), &ended.json()["transferStatus"]), ("TIMEOUT".into(), &json!("FAILED")));
    assert_eq!(
        (&ended.json()["retryWithSameKey"], &ended.json()["safeNewKey"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(transfer(&person(&cluster, 1, "ann"), &key, ann, bob, "5").expect(422).text, ended.text);
    assert_eq!(transfer(&api, &key, ann, bob, "6").expect(409).code(), "IDEMPOTENCY_HASH_MISMATCH");
    assert_eq!(balance(&api, ann), "100", "nothing was moved");
    assert!(cluster.metric("guerdon_idempotency_keys_finished_total") >= 1.0);
    transfer(&api, &new_key(&api), ann, bob, "5").expect(200);
    assert_clean(&cluster.database);
}

fn killed_between_the_work_and_the_answer(engine: TestEngine, servers: usize) {
    let mut cluster = Cluster::start_with(engine, servers, &[]);
    let (ann, bob) = two_people(&cluster);
    let key = new_key(&person(&cluster, 0, "ann"));
    // Sent, and the answer never read.
    let body = format!(r#"{{"fromAccountId": {ann}, "toAccountId": {bob}, "amount": 5}}"#);
    let bearer = crate::support::token("ann", "USER");
    let address = cluster.servers[0].address.strip_prefix("http://").unwrap().to_owned();
    let mut connection = TcpStream::connect(&address).unwrap();
    write!(
        connection,
        "POST /v1/transfers HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {bearer}\r\nidempotency-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut sql = cluster.database.sql();
    let count = format!("SELECT COUNT(*) FROM {} WHERE kind = 'TRANSFER'", sql.table("core.transfer"));
    until("the transfer to be made", Duration::from_secs(10), || (sql.number(&count) == 1).then_some(()));
    restart(&mut cluster, &[]);
    let id = sql.texts(&format!(
        "SELECT response_snapshot FROM {} WHERE idempotency_key = '{key}'",
        sql.table("integration.idempotency_key")
    ));
    for server in 0..servers * 2 {
        let answer = transfer(&person(&cluster, server, "ann"), &key, ann, bob, "5").expect(200);
        assert_eq!(answer.text, id[0], "the answer that nobody read");
    }
    assert_eq!(sql.number(&count), 1);
    assert_eq!(balance(&person(&cluster, 0, "ann"), ann), "95");
    until_entered(&cluster);
    assert_clean(&cluster.database);
}

fn killed_between_the_work_and_the_ledger(engine: TestEngine, servers: usize) {
    let mut cluster = Cluster::start_with(engine, servers, &[("GUERDON_LOG__LEVEL", "debug")]);
    let (ann, bob) = two_people(&cluster);
    let api = person(&cluster, 0, "ann");
    cluster.database.sql().refuse_rows("core.ledger_entry");
    let key = new_key(&api);
    let made = transfer(&api, &key, ann, bob, "5").expect(200);
    until("the lag to be seen", Duration::from_secs(10), || {
        let (backlog, lag) =
            (cluster.metric("guerdon_ledger_backlog"), cluster.metric("guerdon_ledger_lag_seconds"));
        (backlog > 0.5 && lag > 0.0).then_some(())
    });
    assert_eq!(balance(&api, ann), "95", "the transfer stands, whatever becomes of its entries");
    assert_clean(&cluster.database);
    let log = cluster.servers[0].log_text();
    let id = made.json()["transferId"].as_str().unwrap().to_owned();
    let line = log.lines().find(|line| line.contains(&format!("transferId={id}"))).unwrap();
    assert!(line.contains(&format!("idempotency_key={key}")) && line.contains("event_id="), "{line}");
    cluster.database.sql().allow_rows("core.ledger_entry");
    restart(&mut cluster, &[]);
    until_entered(&cluster);
    let mut sql = cluster.database.sql();
    let entries = sql.table("core.ledger_entry");
    assert_eq!(sql.number(&format!("SELECT COUNT(*) FROM {entries}")), 4);
    assert_clean(&cluster.database);

    // Entries that are lost, and that nobody owes any more, are found by the sweep.
    sql.run(&format!("DELETE FROM {entries} WHERE account_id = {bob}"));
    until("the entries to be written again", Duration::from_secs(20), || {
        (sql.number(&format!("SELECT COUNT(*) FROM {entries}")) == 4).then_some(())
    });
    assert!(cluster.metric("guerdon_ledger_repairs_total") >= 1.0);
    until_entered(&cluster);
    assert_clean(&cluster.database);
}

fn a_deposit_that_broke_is_taken_over(engine: TestEngine, servers: usize) {
    let mut cluster = Cluster::start_with(engine, servers, &[BUSY_WATCHDOG]);
    let (ann, _) = two_people(&cluster);
    cluster.database.sql().refuse_rows("core.transfer");
    deposit(&cluster.operator(0), ann, "5", "order-1").expect(500);
    assert_eq!(
        deposit(&cluster.operator(1), ann, "5", "order-1").expect(202).text,
        r#"{"status":"IN_PROGRESS"}"#
    );
    cluster.database.sql().allow_rows("core.transfer");
    // Its lease is over; the watchdog leaves a client's key alone, and whoever brings it next goes on.
    let mut sql = cluster.database.sql();
    let keys = sql.table("integration.idempotency_key");
    sql.run(&format!("UPDATE {keys} SET deadline = 1 WHERE idempotency_key = 'order-1'"));
    restart(&mut cluster, &[BUSY_WATCHDOG]);
    let answers = at_once(12, |number| deposit(&cluster.operator(number), ann, "5", "order-1"));
    let done = deposit(&cluster.operator(0), ann, "5", "order-1").expect(200);
    assert!(answers.iter().all(|answer| answer.status == 202 || answer.text == done.text), "{answers:?}");
    assert_eq!(sql.number(&format!("SELECT epoch FROM {keys} WHERE idempotency_key = 'order-1'")), 2);
    assert_eq!(balance(&cluster.operator(0), ann), "105", "once");
    until_entered(&cluster);
    assert_clean(&cluster.database);
}

/// A watchdog that ends nearly everything: each key either has its transfer or has failed, never both, never neither.
fn a_watchdog_in_a_hurry(engine: TestEngine, servers: usize) {
    let hurry = [("GUERDON_WALLET__TIMEOUT", "1ms"), ("GUERDON_WALLET__WATCHDOG_INTERVAL", "1ms")];
    let cluster = Cluster::start_with(engine, servers, &hurry);
    let (ann, bob) = two_people(&cluster);
    let ends = at_once(24, |number| {
        let api = person(&cluster, number, "ann");
        let (mut moved, mut ended) = (0, 0);
        for _ in 0..20 {
            let key = new_key(&api);
            let last = until("an end", Duration::from_secs(20), || {
                let answer = transfer(&api, &key, ann, bob, "0.01");
                (answer.status != 202).then_some(answer)
            });
            match last.code().as_str() {
                "" => moved += 1,
                "TIMEOUT" => ended += 1,
                _ => panic!("{}", last.text),
            }
            let again = transfer(&api, &key, ann, bob, "0.01");
            assert_eq!(again.text, last.text, "an end is the end");
        }
        (moved, ended)
    });
    let (moved, ended): (i64, i64) =
        ends.into_iter().fold((0, 0), |sum, ends| (sum.0 + ends.0, sum.1 + ends.1));
    assert_eq!(moved + ended, 480);
    let mut sql = cluster.database.sql();
    let made =
        sql.number(&format!("SELECT COUNT(*) FROM {} WHERE kind = 'TRANSFER'", sql.table("core.transfer")));
    assert_eq!(made, moved, "as many transfers as answers that said so; {ended} were ended");
    until_entered(&cluster);
    assert_clean(&cluster.database);
}
