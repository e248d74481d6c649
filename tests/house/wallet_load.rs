//! Ten thousand transfers with retries and duplicates while servers are killed: not a unit is lost or made.

use crate::audit::assert_clean;
use crate::support::{BINARY, for_every_setup, operator, token};
use crate::wallet::{deposit, open_account};
use guerdon_harness::{Answer, Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

for_every_setup! { killed_five_times_in_ten_thousand_transfers }

const CLIENTS: usize = 100;
const ACCOUNTS: usize = 50;
const EACH: usize = 100;
const KILLS: usize = 5;
const FIRST_BALANCE: i64 = 1_000;

/// The servers as they are now: where they listen changes with every start.
struct Fleet {
    options: ServerOptions,
    running: RwLock<Vec<Server>>,
    done: AtomicUsize,
}

impl Fleet {
    fn api(&self, number: usize) -> Api {
        let running = self.running.read().unwrap();
        running[number % running.len()].api()
    }

    /// Calls until somebody answers, whichever server that is.
    fn call(&self, first: usize, call: impl Fn(&Api) -> Result<Answer, String>) -> Answer {
        let mut server = first;
        until("an answer", Duration::from_mins(1), || {
            server += 1;
            call(&self.api(server)).ok().filter(|answer| !matches!(answer.status, 500..))
        })
    }

    fn kill_one(&self, round: usize) {
        let mut running = self.running.write().unwrap();
        let victim = round % running.len();
        running.remove(victim).kill();
        running.insert(victim, Server::start(BINARY, &self.options));
    }
}

/// One client's transfers: what was moved, from which account to which.
fn client(fleet: &Fleet, number: usize, accounts: &[i64]) -> Vec<(usize, usize, i64, String)> {
    let from = number % ACCOUNTS;
    let bearer = token(&format!("owner-{from}"), "USER");
    let mut moved = Vec::new();
    for round in 0..EACH {
        let to = (from + 1 + (number * 7 + round * 13) % (ACCOUNTS - 1)) % ACCOUNTS;
        let amount = i64::try_from(1 + (number + round) % 40).unwrap();
        let body = json!({"fromAccountId": accounts[from], "toAccountId": accounts[to], "amount": amount})
            .to_string();
        // A key that the watchdog has spent is followed by a new one.
        loop {
            let key = fleet.call(number, |api| {
                let body = Some(r#"{"scope": "TRANSFER"}"#);
                api.with_token(&bearer).try_send("POST", "/v1/idempotency-keys", &[], body)
            });
            let key = key.expect(201).json()["idempotencyKey"].as_str().unwrap().to_owned();
            let send = |api: &Api| {
                api.with_token(&bearer).try_send(
                    "POST",
                    "/v1/transfers",
                    &[("idempotency-key", &key)],
                    Some(&body),
                )
            };
            let mut calls = 0;
            let end = until("the transfer's end", Duration::from_mins(1), || {
                calls += 1;
                let answer = fleet.call(number + calls, send);
                // Some clients call twice without need.
                if round % 4 == 0 {
                    let _ = send(&fleet.api(number + calls + 1));
                }
                (answer.status != 202).then_some(answer)
            });
            match (end.status, end.code().as_str()) {
                (200, _) => {
                    let id = end.json()["transferId"].as_str().unwrap().to_owned();
                    moved.push((from, to, amount, id));
                }
                (422, "INSUFFICIENT_BALANCE") => {}
                (422, "TIMEOUT") => continue,
                _ => panic!("{}", end.text),
            }
            let again = fleet.call(number, send);
            assert_eq!(again.text, end.text, "an end is the end");
            break;
        }
        fleet.done.fetch_add(1, Ordering::SeqCst);
    }
    moved
}

fn killed_five_times_in_ten_thousand_transfers(engine: TestEngine, servers: usize) {
    let database = TestDatabase::new(engine);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_WALLET__TIMEOUT", "2s")
        .with("GUERDON_WALLET__WATCHDOG_INTERVAL", "200ms");
    let running: Vec<_> = (0..servers).map(|_| Server::start(BINARY, &options)).collect();
    let api = operator(&running[0]);
    let accounts: Vec<_> = (0..ACCOUNTS)
        .map(|number| {
            let account = open_account(&api, &format!("owner-{number}"), "KRW", 0);
            deposit(&api, account, &FIRST_BALANCE.to_string(), &format!("first-{number}")).expect(200);
            account
        })
        .collect();
    let fleet = Fleet { options, running: RwLock::new(running), done: AtomicUsize::new(0) };
    let moved = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (fleet, accounts, moved) = (&fleet, &accounts, &moved);
            scope.spawn(move || {
                let mine = client(fleet, number, accounts);
                moved.lock().unwrap().extend(mine);
            });
        }
        for round in 0..KILLS {
            let killed_at = (round + 1) * CLIENTS * EACH / (KILLS + 1);
            until("the next kill", Duration::from_mins(3), || {
                (fleet.done.load(Ordering::SeqCst) >= killed_at).then_some(())
            });
            fleet.kill_one(round);
            assert_clean(&database);
        }
    });
    assert_eq!(fleet.done.load(Ordering::SeqCst), CLIENTS * EACH);
    let moved = moved.into_inner().unwrap();
    assert!(moved.len() > CLIENTS * EACH / 2, "{} were moved", moved.len());

    let mut sql = database.sql();
    let [account, transfer, entry, backlog, key] = [
        "core.account",
        "core.transfer",
        "core.ledger_entry",
        "core.ledger_backlog",
        "integration.idempotency_key",
    ]
    .map(|table| sql.table(table));
    until("the ledger to catch up", Duration::from_mins(1), || {
        (sql.number(&format!("SELECT COUNT(*) FROM {backlog}")) == 0).then_some(())
    });
    // What the clients were told is what is there: not a transfer more, not one less.
    let mut told: Vec<_> = moved.iter().map(|(_, _, _, id)| id.clone()).collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), moved.len(), "one transfer per answer");
    let made = sql.number(&format!("SELECT COUNT(*) FROM {transfer} WHERE kind = 'TRANSFER'"));
    assert_eq!(made, i64::try_from(moved.len()).unwrap());
    let mut held = vec![FIRST_BALANCE; ACCOUNTS];
    for (from, to, amount, _) in &moved {
        held[*from] -= amount;
        held[*to] += amount;
    }
    for (number, expected) in accounts.iter().zip(held) {
        let stored = sql.number(&format!("SELECT balance FROM {account} WHERE account_id = {number}"));
        assert_eq!(stored, expected, "account {number}");
        let signed = format!(
            "SELECT CAST(SUM(CASE side WHEN 'CREDIT' THEN amount ELSE -amount END) AS BIGINT)
            FROM {entry} WHERE account_id = {number}"
        );
        assert_eq!(sql.number(&signed), expected, "the entries of {number}");
    }
    let twice = format!(
        "SELECT COUNT(*) FROM (SELECT idempotency_key FROM {transfer} GROUP BY idempotency_key, client_id
        HAVING COUNT(*) > 1) twice"
    );
    assert_eq!(sql.number(&twice), 0, "one transfer per key");
    let open = format!("SELECT COUNT(*) FROM {key} WHERE status = 'IN_PROGRESS'");
    assert_eq!(sql.number(&open), 0, "everything has ended");
    assert_eq!(
        sql.number(&format!("SELECT COUNT(*) FROM {account} WHERE kind = 'MEMBER' AND balance < 0")),
        0
    );
    assert_clean(&database);
}
