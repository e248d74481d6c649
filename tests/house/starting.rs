//! Starting, refusing to start, and stopping.

use crate::support::{BINARY, Cluster, operator};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use std::process::Command;
use std::time::Duration;

fn guerdon(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(BINARY)
        .args(arguments)
        .current_dir(folder.path())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn sqlite_a_second_server_on_the_same_file_is_refused() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url);
    let first = Server::start(BINARY, &options);
    let said = Server::try_start(BINARY, &options).err().unwrap();
    assert!(said.contains("being served by another process"), "{said}");
    let (code, _, said) = guerdon(&["migrate"], &[("GUERDON_DATABASE", &database.url)]);
    assert_eq!(code, Some(1));
    assert!(said.contains("being served by another process"), "{said}");
    let alias = format!("{}-alias", database.path());
    for link in
        [std::os::unix::fs::symlink::<&str, &str>, |file: &str, name: &str| std::fs::hard_link(file, name)]
    {
        link(database.path(), &alias).unwrap();
        let said = Server::try_start(BINARY, &ServerOptions::on(&format!("sqlite:{alias}"))).err().unwrap();
        assert!(said.contains("being served by another process"), "by another name: {said}");
        std::fs::remove_file(&alias).unwrap();
    }
    first.kill();
    let second = Server::start(BINARY, &options);
    assert_eq!(second.stop(), Some(0), "a killed server leaves no lock behind");
}

fn a_newer_database_is_refused(engine: TestEngine) {
    let database = TestDatabase::new(engine);
    let environment = [("GUERDON_DATABASE", database.url.as_str())];
    assert_eq!(guerdon(&["migrate"], &environment).0, Some(0));
    let (code, said, _) = guerdon(&["migrate"], &environment);
    assert_eq!(code, Some(0));
    assert!(said.contains("already"), "{said}");
    database.sql().run("INSERT INTO schema_migrations (version, name, applied_at) VALUES (999, 'future', 1)");
    let said = Server::try_start(BINARY, &ServerOptions::on(&database.url)).err().unwrap();
    assert!(said.contains("999") && said.contains("newer guerdon"), "{said}");
}

#[test]
fn sqlite_a_newer_database_is_refused() {
    a_newer_database_is_refused(TestEngine::Sqlite);
}

#[test]
fn postgres_a_newer_database_is_refused() {
    a_newer_database_is_refused(TestEngine::Postgres);
}

#[test]
fn a_bad_configuration_names_the_setting() {
    for (environment, word) in [
        (("GUERDON_LISTEN", "nowhere"), "listen"),
        (("GUERDON_DATABASE", "oracle:x"), "database"),
        (("GUERDON_OUTBOX__LEASE", "soon"), "outbox.lease"),
        (("GUERDON_TYPO", "1"), "typo"),
        (("GUERDON_LISTEN", "0.0.0.0:0"), "auth.secret"),
    ] {
        let (code, said, error) = guerdon(&["serve"], &[environment]);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains(word), "{error}");
    }
    let (code, _, error) = guerdon(&["serve", "--database", "postgres://nobody:hush@127.0.0.1:1/none"], &[]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot be used") && !error.contains("hush"), "{error}");
}

#[test]
fn the_command_line_answers() {
    let secret = [("GUERDON_AUTH__SECRET", "a-very-secret-secret-of-good-length")];
    let (code, shown, _) = guerdon(&["config", "--set", "log.level=debug"], &secret);
    assert_eq!(code, Some(0));
    assert!(shown.contains("log.level = \"debug\"") && shown.contains("# --set log.level"), "{shown}");
    assert!(!shown.contains("very-secret"), "{shown}");
    let (code, json, _) = guerdon(&["config", "--json"], &secret);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["listen"]["value"].as_str()), (Some(0), Some("127.0.0.1:8080")));
    let (code, token, _) =
        guerdon(&["token", "--user", "u-1", "--role", "auditor", "--role", "USER"], &secret);
    assert_eq!((code, token.trim().split('.').count()), (Some(0), 3));
    for bad in [&["token", "--user", "a#b"][..], &["token", "--user", "u", "--role", "KING"], &["nonsense"]] {
        assert_eq!(guerdon(bad, &[]).0, Some(2), "{bad:?}");
    }
    let (_, help, _) = guerdon(&["--help"], &[]);
    assert!(help.contains("serve") && help.contains("guerdon token --user me"), "{help}");
}

/// A token of the command line is good for a server with the same settings.
#[test]
fn sqlite_a_printed_token_opens_the_door() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let secret = [("GUERDON_AUTH__SECRET", guerdon_harness::server::SECRET)];
    let (_, token, _) = guerdon(&["token", "--user", "me", "--role", "OPERATOR"], &secret);
    let api = cluster.servers[0].api().with_token(token.trim());
    api.post("/v1/admin/events", &drop_body("e")).expect(201);
}

fn what_was_accepted_is_answered_before_the_end(engine: TestEngine) {
    let cluster = Cluster::start(engine, 1);
    let server = &cluster.servers[0];
    let mut sql = cluster.database.sql();
    sql.hold_writers();
    std::thread::scope(|scope| {
        cluster.plug(scope);
        let api = operator(server);
        let calls: Vec<_> = (0..8)
            .map(|n| {
                let api = api.clone();
                scope.spawn(move || api.post("/v1/admin/events", &drop_body(&format!("e_{n}"))))
            })
            .collect();
        cluster.until_waiting(8);
        server.signal("-TERM");
        until("the server to stop listening", Duration::from_secs(2), || {
            std::net::TcpStream::connect(server.address.trim_start_matches("http://")).is_err().then_some(())
        });
        sql.release();
        for call in calls {
            call.join().unwrap().expect(201);
        }
    });
    let Cluster { database, mut servers } = cluster;
    assert_eq!(servers.remove(0).wait(), Some(0));
    assert_eq!(database.sql().number("SELECT COUNT(*) FROM events"), 9);
}

#[test]
fn sqlite_what_was_accepted_is_answered_before_the_end() {
    what_was_accepted_is_answered_before_the_end(TestEngine::Sqlite);
}

#[test]
fn postgres_what_was_accepted_is_answered_before_the_end() {
    what_was_accepted_is_answered_before_the_end(TestEngine::Postgres);
}
