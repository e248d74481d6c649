//! Wishes that are counted as they come, many in one call of Redis: whoever waits while one call is under way is in the
//! next. Each coupon has a line of its own, so that one that is being counted anew holds up no other.

use super::port::{Counted, Take};
use super::{Coupons, held};
use crate::engine::Engine;
use guerdon_core::CouponId;
use guerdon_core::coupons::Coupon;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Wishes for one coupon that wait at one time; more are turned away.
const WAITING_MAX: usize = 8_192;
/// Wishes of one call: Redis does nothing else meanwhile.
const CALL_MAX: usize = 128;

/// What became of a wish: nothing, where nobody could be asked.
type Answer = Option<(i64, Counted)>;

/// Coupons that somebody waits for; each has somebody who asks.
#[derive(Default)]
pub(super) struct Teller(Mutex<HashMap<CouponId, Vec<Wish>>>);

struct Wish {
    take: Take,
    answer: oneshot::Sender<Answer>,
}

impl Engine {
    /// Has a wish counted; none where too many wait.
    pub(super) fn tell(
        self: &Arc<Self>,
        coupon: &Arc<Coupon>,
        take: Take,
    ) -> Option<oneshot::Receiver<Answer>> {
        let (answer, pending) = oneshot::channel();
        let mut lines = held(&self.coupons.teller.0);
        match lines.get_mut(&coupon.id) {
            Some(waiting) if waiting.len() >= WAITING_MAX => return None,
            Some(waiting) => waiting.push(Wish { take, answer }),
            None => {
                lines.insert(coupon.id.clone(), vec![Wish { take, answer }]);
                drop(lines);
                let (coupons, coupon) = (Arc::clone(&self.coupons), Arc::clone(coupon));
                let line = Line { coupons, coupon, ended: false };
                tokio::spawn(line.run(Arc::clone(self)));
            }
        }
        Some(pending)
    }
}

/// Whoever asks for one coupon, as long as somebody waits for it.
struct Line {
    coupons: Arc<Coupons>,
    coupon: Arc<Coupon>,
    /// Whether nobody waited any more.
    ended: bool,
}

impl Line {
    async fn run(mut self, engine: Arc<Engine>) {
        loop {
            let wishes: Vec<_> = {
                let mut lines = held(&self.coupons.teller.0);
                let Some(waiting) = lines.get_mut(&self.coupon.id) else { return };
                if waiting.is_empty() {
                    lines.remove(&self.coupon.id);
                    self.ended = true;
                    return;
                }
                let count = waiting.len().min(CALL_MAX);
                waiting.drain(..count).collect()
            };
            let (takes, answers): (Vec<_>, Vec<_>) =
                wishes.into_iter().map(|wish| (wish.take, wish.answer)).unzip();
            match engine.count(&self.coupon, &takes, true).await {
                Some((epoch, all)) => {
                    for (answer, counted) in answers.into_iter().zip(all) {
                        let _ = answer.send(Some((epoch, counted)));
                    }
                }
                // Nobody answers: whoever waits for the same need not wait in turn.
                None => return,
            }
        }
    }
}

/// However it ends, nobody is left waiting, and the next one begins a new line.
impl Drop for Line {
    fn drop(&mut self) {
        if !self.ended {
            held(&self.coupons.teller.0).remove(&self.coupon.id);
        }
    }
}
