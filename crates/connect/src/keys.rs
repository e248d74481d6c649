//! Public keys of tokens, from whoever signs them.

use crate::address::Reach;
use crate::http::{self, root_cause};
use crate::services::{Lost, read};
use reqwest::{Client, Url};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// An address at which a set of public keys is published.
#[derive(Clone)]
pub struct KeySource {
    client: Client,
    url: Url,
}

impl KeySource {
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self { client: http::client(Reach::Anywhere, TIMEOUT)?, url: http::parse(url, Reach::Anywhere)? })
    }

    /// Whether somebody on the way could put other keys in their place.
    pub fn can_be_tampered_with(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let here =
            host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        self.url.scheme() != "https" && !here
    }

    pub async fn fetch(&self) -> Result<Vec<u8>, String> {
        let answer = self.client.get(self.url.clone()).send().await;
        let answer = answer.map_err(|error| root_cause(&error.without_url()))?;
        if answer.status() != 200 {
            return Err(format!("it answered {}", answer.status().as_u16()));
        }
        read(answer).await.map_err(Lost::reason)
    }
}
