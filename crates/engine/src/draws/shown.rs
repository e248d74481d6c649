//! What people see of a draw in their own requests.

use guerdon_core::draw::{Draw, Hash};
use guerdon_core::events::{Event, EventState};
use guerdon_core::requests::{LineKey, Request, RequestState, ResultCode};
use guerdon_store::{Fault, Tx, draws};

/// The leaf that stands for a request in the tree.
pub(crate) fn receipt(draw: &Draw, request: &Request) -> Hash {
    draw.leaf_of(request.position, request.id, &request.user_id)
}

/// With the announcement everybody is decided at once, whether or not their row says so yet.
pub(crate) fn announce_to(
    tx: &mut Tx<'_>,
    event: &Event,
    states: Vec<(LineKey, &mut RequestState)>,
) -> Result<(), Fault> {
    let EventState::Announced { announced_at, .. } = event.state else { return Ok(()) };
    let unwritten: Vec<_> =
        states.into_iter().filter(|(_, state)| matches!(state, RequestState::Queued)).collect();
    let keys = || unwritten.iter().map(|(key, _)| *key);
    let (Some(first), Some(last)) = (keys().min(), keys().max()) else { return Ok(()) };
    let winners = draws::winners(tx, LineKey::from_raw(first.raw() - 1), last)?;
    for (key, state) in unwritten {
        let result = match winners.binary_search(&key) {
            Ok(_) => ResultCode::Success,
            Err(_) => ResultCode::RejectedLotteryLose,
        };
        *state = RequestState::Finished { result, started_at: announced_at, finished_at: announced_at };
    }
    Ok(())
}
