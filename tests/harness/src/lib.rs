//! What the tests stand on. Everything is real: PostgreSQL, SQLite files, the built binary as a process of its own.

pub mod api;
pub mod broker;
pub mod consumer;
pub mod database;
pub mod hook;
pub mod partners;
pub mod ports;
pub mod postgres_server;
pub mod proxy;
pub mod redis;
pub mod server;
pub mod wait;

pub use api::{Answer, Api};
pub use broker::{BrokerKind, Observer, OwnBroker};
pub use consumer::ConsumerProcess;
pub use database::{TestDatabase, TestEngine};
pub use hook::Hook;
pub use partners::Partners;
pub use ports::free_port;
pub use proxy::Proxy;
pub use redis::{Keeps, OwnRedis, OwnRedisCluster, Switch};
pub use server::{Server, ServerOptions};
pub use wait::until;
