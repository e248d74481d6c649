//! How long headers may take, without a timer of the runtime's for every request.
//!
//! The server's HTTP library asks for a new timer whenever it waits for a request, and throws it away as soon as one has come:
//! in a surge that is a place in the runtime's wheel taken and given back for each of them. Here a connection keeps one timer.
//! It is left to run out, and only then looks whether somebody still waits, and until when.

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The timer of one connection.
#[derive(Clone, Default)]
pub(crate) struct HeaderTime(Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>);

impl Timer for HeaderTime {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until { deadline, timer: self.clone() })
    }

    fn now(&self) -> Instant {
        TokioTimer::new().now()
    }
}

struct Until {
    deadline: Instant,
    timer: HeaderTime,
}

impl Sleep for Until {}

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline.into();
        let mut running = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        // One that was begun for an earlier request runs out early; one for a later time would run out late.
        if running.deadline() > deadline {
            running.as_mut().reset(deadline);
        }
        loop {
            ready!(running.as_mut().poll(context));
            if running.deadline() >= deadline {
                return Poll::Ready(());
            }
            running.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HeaderTime;
    use futures_util::FutureExt;
    use hyper::rt::Timer;
    use std::time::Duration;

    #[tokio::test]
    async fn it_ends_at_its_deadline_whatever_was_waited_for_before() {
        let time = HeaderTime::default();
        let after = |millis| time.now() + Duration::from_millis(millis);
        // What was looked at once and given up, and what is waited for then.
        for (given_up, waited_for) in [(60_000, 20), (1, 40), (30, 1), (60_000, 30)] {
            let first = time.sleep_until(after(given_up)).now_or_never();
            assert!(first.is_none() || given_up < 60_000, "a minute has not passed");
            let deadline = after(waited_for);
            let waited = tokio::time::timeout(Duration::from_secs(10), time.sleep_until(deadline)).await;
            assert!(waited.is_ok() && time.now() >= deadline, "{given_up}, then {waited_for}");
        }
    }
}
