//! Calls over HTTP, and what came back.

use serde_json::{Value, json};
use std::time::Duration;

#[derive(Clone)]
pub struct Api {
    address: String,
    token: Option<String>,
    agent: ureq::Agent,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().into()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Fails unless the status is this one.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl Api {
    pub fn new(address: &str) -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .max_idle_connections(64)
            .max_idle_connections_per_host(64)
            // Well before a server would end a connection that rests: one that is taken up again is still there.
            .max_idle_age(Duration::from_millis(200))
            .build()
            .new_agent();
        Self { address: address.into(), token: None, agent }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], Some(&body.to_string()))
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        self.try_send(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: no answer: {error}"))
    }

    /// The error of a connection that broke, as one does when the server is killed.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let run = |error: ureq::Error| error.to_string();
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body.to_owned()).expect("a request")).map_err(run)?,
            None => self.agent.run(request.body(()).expect("a request")).map_err(run)?,
        };
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().map_err(run)?;
        Ok(Answer { status, headers, text })
    }

    /// The value of a metric without labels, or the sum over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").expect(200).text;
        let values = text.lines().filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            let key = key.split('{').next()?;
            (key == name).then(|| value.parse::<f64>().expect("a number"))
        });
        values.sum()
    }
}

/// A drop that validates, with an id of its own.
pub fn drop_body(event_id: &str) -> Value {
    json!({
        "eventId": event_id, "name": "A drop", "type": "FIRST_COME",
        "startsAt": 1_700_000_000_000_i64, "endsAt": 4_000_000_000_000_i64, "capacityTotal": 100,
        "rewards": [
            {"rewardId": "points", "kind": "POINT", "amount": 1000, "currency": "POINT"},
            {"rewardId": "gift", "kind": "ITEM", "totalStock": 100},
        ],
    })
}
