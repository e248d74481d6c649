//! What moves by itself: loops that are watched, and started again when they panic.

use crate::metrics::{EngineMetrics, LoopLabels};
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};

/// How soon a loop that panicked is started again.
const RESTART_DELAY: Duration = Duration::from_millis(500);

/// The loops of an engine; they end with it.
#[derive(Debug, Default)]
pub(crate) struct Loops(Mutex<Vec<JoinHandle<()>>>);

impl Loops {
    /// Runs `step` again and again with a pause between.
    pub(crate) fn every<F>(
        &self,
        name: &'static str,
        pause: Duration,
        metrics: &EngineMetrics,
        step: impl Fn() -> F + Send + Sync + Clone + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let restarts = metrics.loop_restarts.get_or_create_owned(&LoopLabels { name });
        let watched = tokio::spawn(async move {
            loop {
                let step = step.clone();
                let run = tokio::spawn(async move {
                    loop {
                        step().await;
                        tokio::time::sleep(pause).await;
                    }
                });
                let ended: Result<(), JoinError> = AbortOnDrop(run).join().await;
                if ended.is_err() {
                    restarts.inc();
                    tracing::error!(name, "a background loop panicked and is started again");
                }
                tokio::time::sleep(RESTART_DELAY).await;
            }
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
    }

    pub(crate) fn stop(&self) {
        for watched in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            watched.abort();
        }
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes the inner task with it when the watcher is ended.
struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    async fn join(mut self) -> Result<(), JoinError> {
        (&mut self.0).await
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::Loops;
    use crate::metrics::{EngineMetrics, LoopLabels};
    use prometheus_client::registry::Registry;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_goes_on() {
        let metrics = EngineMetrics::register(&mut Registry::default());
        let loops = Loops::default();
        let steps = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&steps);
        loops.every("test", Duration::from_millis(1), &metrics, move || {
            let step = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(step != 2, "as the test wants it") }
        });
        while steps.load(Ordering::Relaxed) < 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(metrics.loop_restarts.get_or_create(&LoopLabels { name: "test" }).get(), 1);
    }
}
