//! The HTTP surface. It translates: calls into the engine's words, its answers into HTTP. It decides nothing.

mod address;
mod app;
mod cursor;
mod edge;
mod error_pages;
mod gateway;
mod identity;
mod json;
mod limits;
mod list;
mod listen;
mod metrics;
mod once;
mod openapi;
mod pages;
mod path;
mod prefer;
mod problem;
mod routes;
mod session;
mod stream;
mod strict;
mod tls;
mod token;
mod trusted;

pub use address::{ForwardedHeader, TrustedProxies};
pub use app::{App, Guard, HttpOptions, Identities, router};
pub use gateway::{Gateway, GatewayOptions, GatewayService, UpstreamOptions};
pub use limits::LimitOptions;
pub use listen::{Listening, serve};
pub use metrics::HttpMetrics;
pub use openapi::document as openapi_document;
pub use problem::{status_of, stored_problem};
pub use tls::acceptor;
pub use token::{AuthOptions, FetchKeys, KeyTimes, Verifier};
pub use trusted::{GatewayKey, Trusted};
