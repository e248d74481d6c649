//! How fast an event without a line goes: counted by what is stored, the same at every server, and only while it is watched.

use crate::support::{Cluster, on_every_setup, token};
use guerdon_harness::{Api, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

on_every_setup! {
    everybody_of_the_last_minute_is_counted
    a_stream_tells_of_each_second
}

const PATIENCE: Duration = Duration::from_secs(20);
const END: i64 = 4_000_000_000_000;

fn open(api: &Api, id: &str, kind: &str, more: &Value) {
    let points = json!([{"rewardId": "p", "kind": "POINT", "amount": 5, "currency": "POINT"}]);
    let mut body = json!({"eventId": id, "name": id, "type": kind, "startsAt": 0, "endsAt": END});
    body["rewards"] = points;
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn open_all(api: &Api) {
    open(api, "daily", "ATTENDANCE", &json!({"attendance": {"timeZone": "Asia/Seoul", "daily": "p"}}));
    open(api, "sure", "RANDOM", &json!({"random": {"prizes": [{"rewardId": "p", "weight": 1}]}}));
    open(api, "never", "RANDOM", &json!({"random": {"prizes": [{"rewardId": null, "weight": 1}]}}));
    open(api, "gift", "CLAIM", &json!({"conditions": "activity.LEVEL >= 10"}));
    open(api, "drop", "FIRST_COME", &json!({"capacityTotal": 1}));
}

fn pace(api: &Api, event: &str) -> Value {
    api.get(&format!("/v1/admin/events/{event}/pace")).expect(200).json()
}

/// The first frames of a stream.
fn frames(api: &Api, token: &str, path: &str, count: usize) -> Vec<Value> {
    let mut stream = TcpStream::connect(api.address().trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    data.take(count).map(|text| serde_json::from_str(&text).unwrap()).collect()
}

/// What came of everybody, as `result reward count`.
fn results(pace: &Value) -> Vec<String> {
    let said = |one: &Value| {
        let reward = one["rewardId"].as_str().unwrap_or("-");
        format!("{} {reward} {}", one["result"].as_str().unwrap(), one["count"])
    };
    pace["results"].as_array().unwrap().iter().map(said).collect()
}

fn everybody_of_the_last_minute_is_counted(cluster: &Cluster) {
    let api = cluster.operator(1);
    open_all(&api);
    let nobody = pace(&api, "daily");
    assert_eq!((&nobody["lastMinute"], &nobody["lastSecond"]), (&json!(0), &json!(0)));
    assert_eq!(results(&nobody), Vec::<String>::new());
    for number in 0..5 {
        let user = cluster.servers[0].api().with_token(&token(&format!("u-{number}"), "USER"));
        user.post("/v1/events/daily/attendance", &json!({})).expect(201);
        for (path, key) in [
            ("/v1/events/sure/plays", "sure"),
            ("/v1/events/never/plays", "never"),
            ("/v1/event-claims/gift/claim", "gift"),
        ] {
            let key = format!("{key}-of-u-{number}");
            user.send("POST", path, &[("idempotency-key", &key)], Some("{}"));
        }
    }
    for (event, expected) in [
        ("daily", "FIRST_DAY - 5"),
        ("sure", "WON p 5"),
        ("never", "NOTHING - 5"),
        ("gift", "CONDITION_NOT_MET - 5"),
    ] {
        // By whichever server is asked, once the second is over in which they came.
        for server in [0, 1] {
            let operator = cluster.operator(server);
            let all = until(&format!("all of {event}"), PATIENCE, || {
                let pace = pace(&operator, event);
                (pace["lastMinute"] == 5).then_some(pace)
            });
            assert_eq!(results(&all), [expected], "{all}");
            let seconds: Vec<_> =
                all["perSecond"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
            assert_eq!((seconds.len(), seconds.iter().sum::<i64>()), (60, 5), "{all}");
            assert_eq!(seconds.last().copied(), all["lastSecond"].as_i64());
        }
    }
    assert_eq!(api.get("/v1/admin/events/drop/pace").expect(409).code(), "EVENT_WRONG_TYPE");
}

fn a_stream_tells_of_each_second(cluster: &Cluster) {
    let api = cluster.operator(0);
    open_all(&api);
    // Two who watch are told the same, from one look.
    let read = |name: &str| {
        let (api, token) = (cluster.operator(1), token(name, "AUDITOR"));
        std::thread::spawn(move || frames(&api, &token, "/v1/admin/events/daily/pace/stream", 4))
    };
    let (first, second) = (read("watcher"), read("other"));
    let user = cluster.servers[0].api().with_token(&token("ann", "USER"));
    user.post("/v1/events/daily/attendance", &json!({})).expect(201);
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    for frames in [&first, &second] {
        let at: Vec<_> = frames.iter().map(|frame| frame["at"].as_i64().unwrap()).collect();
        assert!(at.windows(2).all(|pair| pair[1] > pair[0]), "{at:?}");
        assert_eq!(frames.last().unwrap()["lastMinute"], 1);
    }
    let shared = first.iter().filter(|frame| second.contains(frame)).count();
    assert!(shared > 0, "{first:?} {second:?}");
}
