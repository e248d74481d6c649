//! The demonstration: it begins by itself, shows something of everything, keeps the promises, and leaves nothing behind.

use crate::support::BINARY;
use guerdon_harness::{Api, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

struct Demo {
    child: Child,
    lines: Vec<String>,
    folder: tempfile::TempDir,
}

impl Demo {
    /// Starts it where nothing of its surroundings is to be used, and waits until the links are printed.
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("guerdon.toml"),
            "database = \"postgres://nobody@127.0.0.1:1/none\"",
        )
        .unwrap();
        let temporary = folder.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let mut child = Command::new(BINARY)
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(folder.path())
            .env("TMPDIR", &temporary)
            .env("GUERDON_DATABASE", "postgres://nobody@127.0.0.1:1/none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut demo = Self { child, lines: Vec::new(), folder };
        while demo.lines.last().is_none_or(|line| !line.contains("Ctrl-C")) {
            demo.lines.push(said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{:?}", demo.lines)));
        }
        demo
    }

    fn address(&self) -> &str {
        self.lines[0].strip_prefix("listening on ").unwrap()
    }

    /// Whoever a link signs in.
    fn behind(&self, page: &str) -> Api {
        let link = format!("/{page}#token=");
        let token = self.lines.iter().find_map(|line| line.split_once(link.as_str())).unwrap().1;
        Api::new(self.address()).with_token(token)
    }

    fn temporary(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("temporary")).unwrap().count()
    }

    fn interrupt(&mut self) -> Option<i32> {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().unwrap().clone()
}

#[test]
fn a_demonstration_shows_everything_and_leaves_nothing() {
    let mut demo = Demo::start(&["--crowd", "60"]);
    let (operator, visitor) = (demo.behind("console"), demo.behind("play"));
    let list = |path: &str| items(&operator.get(path).expect(200).json());
    let open = items(&visitor.get("/v1/events").expect(200).json());
    let types: BTreeSet<_> = open.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["ATTENDANCE", "CLAIM", "FIRST_COME", "LOTTERY", "RANDOM"]));
    assert!(
        items(&visitor.get("/v1/me/accounts").expect(200).json())[0]["balance"].as_i64().unwrap() >= 5_000
    );

    // Whoever looks at it can take part. The provider may fail the first time, and then the claim goes on by itself.
    let key = [("idempotency-key", "a-visitors-key")];
    let claim = visitor.send("POST", "/v1/event-claims/gift_1/claim", &key, None);
    assert!(matches!(claim.status, 200 | 202), "{}", claim.text);
    visitor.send("POST", "/v1/coupons/WELCOME/issue", &key, None).expect(201);

    // The crowd takes part in all of it, and is given what it wins.
    until("winners of the first drop", PATIENCE, || {
        let summary = operator.get("/v1/admin/events/drop_1/summary").expect(200).json();
        (summary["byResultCode"]["SUCCESS"].as_i64() > Some(0)).then_some(())
    });
    until("claims that are granted", PATIENCE, || {
        (!list("/v1/admin/claims?status=SUCCESS_ALL_GRANTED").is_empty()).then_some(())
    });
    until("coupons that are issued", PATIENCE, || {
        (!list("/v1/admin/coupons/FLASH_1/user-coupons").is_empty()).then_some(())
    });
    for event in ["drop_1", "daily", "wheel"] {
        until("rewards that were delivered", PATIENCE, || {
            let path = format!("/v1/admin/allocations?eventId={event}&status=SUCCESS");
            (!list(&path).is_empty()).then_some(())
        });
    }
    until("the visitor's gift", PATIENCE, || {
        let claim = visitor.get("/v1/claims/a-visitors-key").expect(200).json();
        (claim["status"] == "SUCCESS_ALL_GRANTED").then_some(())
    });

    let report = operator.get("/v1/admin/audit").expect(200).json();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(demo.temporary(), 1);
    assert_eq!(demo.interrupt(), Some(0));
    assert_eq!(demo.temporary(), 0, "the folder is left");
}

#[test]
fn a_demonstration_that_is_kept_goes_on_where_it_was() {
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().join("data").display().to_string();
    for drops in [2, 4] {
        let mut demo = Demo::start(&["--crowd", "0", "--keep", &folder]);
        let events = items(&demo.behind("console").get("/v1/admin/events?limit=200").expect(200).json());
        let of_line = events.iter().filter(|event| event["type"] == "FIRST_COME").count();
        assert_eq!(of_line, drops);
        assert_eq!(demo.interrupt(), Some(0));
    }
    assert!(Path::new(&folder).join("guerdon.db").exists());
}

#[test]
fn a_demonstration_takes_nobodys_database() {
    for refused in [&["--database", "sqlite:mine.db"][..], &["--config", "mine.toml"]] {
        let output = Command::new(BINARY).arg("demo").args(refused).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--keep DIR"));
    }
}
