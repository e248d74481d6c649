//! Migrations: forward only, once, whoever starts first.

use crate::fixture::{Fixture, NOW};
use crate::on_every_engine;
use guerdon_harness::TestEngine;
use guerdon_store::{Fault, Store, StoreMetrics, StoreOptions, migrate, schema_version};
use prometheus_client::registry::Registry;

on_every_engine! {
    several_processes_may_start_at_once
    a_newer_database_is_refused
    a_second_server_on_one_file_is_refused
}

fn several_processes_may_start_at_once(fixture: &Fixture) {
    let address = fixture.address();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..6).map(|_| scope.spawn(|| migrate(&address, NOW))).collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect()
    });
    if fixture.database.engine == TestEngine::Postgres {
        assert!(outcomes.iter().all(Result::is_ok), "they wait for each other: {outcomes:?}");
    }
    let applied: Vec<_> = outcomes.into_iter().flatten().flatten().collect();
    assert_eq!(applied, (1..=schema_version()).collect::<Vec<_>>(), "each version once, by one of them");
}

fn a_newer_database_is_refused(fixture: &Fixture) {
    migrate(&fixture.address(), NOW).unwrap();
    fixture
        .database
        .sql()
        .run("INSERT INTO schema_migrations (version, name, applied_at) VALUES (999, 'future', 1)");
    let Err(Fault::Unavailable(text)) = migrate(&fixture.address(), NOW) else {
        panic!("it was not refused")
    };
    assert!(text.contains("999") && text.contains("newer guerdon"), "{text}");
}

fn a_second_server_on_one_file_is_refused(fixture: &Fixture) {
    let first = fixture.open();
    let metrics = StoreMetrics::register(&mut Registry::default());
    let second = Store::open(&fixture.address(), &StoreOptions::default(), &metrics, || NOW);
    match (fixture.database.engine, second) {
        (TestEngine::Sqlite, Err(Fault::Unavailable(text))) => {
            assert!(text.contains("being served by another process"), "{text}");
        }
        (TestEngine::Postgres, Ok(_)) => {}
        (engine, second) => panic!("{engine:?}: {:?}", second.err()),
    }
    drop(first);
    Store::open(&fixture.address(), &StoreOptions::default(), &metrics, || NOW).expect("free again");
}
