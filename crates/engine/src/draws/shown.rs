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
    if unwritten.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = unwritten.iter().map(|(key, _)| *key).collect();
    let winners = draws::winners_among(tx, &keys)?;
    for (key, state) in unwritten {
        let won = winners.contains(&key);
        let result = if won { ResultCode::Success } else { ResultCode::RejectedLotteryLose };
        *state = RequestState::Finished { result, started_at: announced_at, finished_at: announced_at };
    }
    Ok(())
}
