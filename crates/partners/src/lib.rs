//! Partners to try things out with: a provider that applies each key once, lists what it applied, and fails as it is told
//! to; and the services that know who is active and who did what.
//!
//! Everything is in memory. It is for tests, demonstrations and documentation, never for real rewards.

mod book;
mod faults;
mod people;
mod provider;

pub use book::Applied;
pub use faults::{Faults, Rates, Scripted, ServiceFaults};
pub use people::Person;

use axum::Router;
use axum::routing::{get, post, put};
use book::Book;
use faults::Program;
use guerdon_connect::Secrets;
use people::People;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;

/// The simulated service.
pub struct Partners {
    secrets: Secrets,
    book: Mutex<Book>,
    program: Mutex<Program>,
    people: Mutex<People>,
}

impl Partners {
    pub fn new(secrets: Secrets, faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            secrets,
            book: Mutex::default(),
            program: Mutex::new(Program::new(faults)),
            people: Mutex::default(),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn people(&self) -> MutexGuard<'_, People> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn router(partners: Arc<Partners>) -> Router {
    Router::new()
        .route("/grant-item", post(provider::grant))
        .route("/revoke-item", post(provider::revoke))
        .route("/grants/{key}", get(provider::look))
        .route("/users/{user}", put(people::set))
        .route("/users/{user}/status", get(people::status))
        .route("/users/{user}/activity", get(people::activity))
        .route("/faults", get(provider::faults).put(provider::set_faults))
        .route("/applied", get(provider::applied).delete(provider::forget))
        .with_state(partners)
}

/// Serves until the process ends.
pub async fn serve(listener: TcpListener, partners: Arc<Partners>) -> std::io::Result<()> {
    axum::serve(listener, router(partners)).await
}
