//! What the tests stand on. Everything is real: PostgreSQL, SQLite files, the built binary as a process of its own.

pub mod api;
pub mod database;
pub mod postgres_server;
pub mod proxy;
pub mod server;
pub mod wait;

pub use api::{Answer, Api};
pub use database::{TestDatabase, TestEngine};
pub use proxy::Proxy;
pub use server::{Server, ServerOptions};
pub use wait::until;
