//! The HTTP surface. It translates: calls into the engine's words, its answers into HTTP. It decides nothing.

mod app;
mod cursor;
mod edge;
mod error_pages;
mod identity;
mod json;
mod list;
mod listen;
mod metrics;
mod once;
mod openapi;
mod path;
mod prefer;
mod problem;
mod routes;
mod stream;
mod strict;
mod token;

pub use app::{App, HttpOptions, router};
pub use listen::serve;
pub use metrics::HttpMetrics;
pub use openapi::document as openapi_document;
pub use problem::{status_of, stored_problem};
pub use token::{AuthOptions, Verifier};
