//! Looking at requests: one's own, an event's, and an event's figures.

use super::Lottery;
use crate::draws::shown::{announce_to, receipt};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::draw::Draw;
use guerdon_core::events::{Event, EventState, EventType};
use guerdon_core::requests::{
    Line as LineRow, Request, RequestId, RequestState, RequestStatus, RequestView, ResultCode,
};
use guerdon_core::{Code, EventId, Rejection, Timestamp, UserId};
use guerdon_store::requests::{self, RequestRow};
use guerdon_store::{Fault, LOOKED_THROUGH_MAX, Tx, draws, events};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most requests of one user that are looked at: as many events as anybody has applied to.
const OF_USER_MAX: i64 = 10_000;
/// The most rows of a lottery whose announcement is being written that a filtered page looks through.
const SCANNED_MAX: i64 = 2_000;

/// A request with what is needed to show it.
#[derive(Clone, Debug)]
pub struct ShownRequest {
    pub request: Request,
    decided_position: i64,
    /// Only a lottery shows more than the request itself.
    lottery: Option<Lottery>,
}

impl ShownRequest {
    pub fn view(&self, now: Timestamp) -> RequestView {
        let event = self.lottery.as_ref().map(|lottery| &*lottery.event);
        let mut view = RequestView::of(&self.request, self.decided_position, event, now);
        view.receipt = self.lottery.as_ref().and_then(|lottery| lottery.receipt);
        view
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.request.state, RequestState::Finished { .. })
    }
}

/// Which of an event's requests an operator lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    pub status: Option<RequestStatus>,
    pub result: Option<ResultCode>,
}

impl RequestFilter {
    fn lets_through(self, row: &RequestRow) -> bool {
        let result = match row.state {
            RequestState::Queued => None,
            RequestState::Finished { result, .. } => Some(result),
        };
        self.status.is_none_or(|status| row.state.status() == status)
            && self.result.is_none_or(|wanted| result == Some(wanted))
    }

    /// The numbers of the results that it lets through, as bits; the lowest is for those that are undecided.
    fn bits(self) -> i64 {
        let undecided =
            self.result.is_none() && self.status.is_none_or(|status| status == RequestStatus::Queued);
        let fits = |code: &&ResultCode| {
            self.result.is_none_or(|wanted| **code == wanted)
                && self.status.is_none_or(|status| code.status() == status)
        };
        ResultCode::ALL.iter().filter(fits).fold(i64::from(undecided), |bits, code| bits | 1 << code.number())
    }
}

/// An event's figures, as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub by_status: BTreeMap<RequestStatus, i64>,
    pub by_result: BTreeMap<ResultCode, i64>,
    pub queue_depth: i64,
    pub capacity_total: i64,
    pub capacity_remaining: i64,
    pub latency_p50_ms: Option<i64>,
    pub latency_p99_ms: Option<i64>,
    pub dead_letter_candidates: i64,
}

impl Summary {
    pub(crate) fn of(line: LineRow) -> Self {
        let mut by_status: BTreeMap<RequestStatus, i64> = BTreeMap::new();
        for (result, count) in &line.tally.results {
            *by_status.entry(result.status()).or_default() += count;
        }
        let queue_depth = line.last_position - line.decided_position;
        if queue_depth > 0 {
            by_status.insert(RequestStatus::Queued, queue_depth);
        }
        Self {
            dead_letter_candidates: by_status.get(&RequestStatus::FailedFinal).copied().unwrap_or(0),
            by_status,
            queue_depth,
            capacity_total: line.capacity_total,
            capacity_remaining: line.capacity_remaining,
            latency_p50_ms: line.tally.percentile(500),
            latency_p99_ms: line.tally.percentile(990),
            by_result: line.tally.results,
        }
    }
}

impl Engine {
    /// A request; for a user only their own.
    pub async fn request(&self, id: RequestId, of: Option<&UserId>) -> Result<ShownRequest, Failure> {
        let found = self.read(move |tx| {
            let Some(row) = requests::find(tx, id)? else { return Ok(None) };
            Ok(shown(tx, vec![row])?.pop())
        });
        let found = found.await?.filter(|shown| of.is_none_or(|user| shown.request.user_id == *user));
        let unknown = || Rejection::new(Code::RequestNotFound, format!("there is no request {id}"));
        Ok(found.ok_or_else(unknown)?)
    }

    /// The same, once it is decided or the time is up.
    pub async fn request_once_decided(
        &self,
        id: RequestId,
        of: Option<&UserId>,
        patience: Duration,
    ) -> Result<ShownRequest, Failure> {
        let mut shown = self.request(id, of).await?;
        let mut line = self.watch.subscribe(&shown.request.event_id);
        let decided = async {
            loop {
                // Looked at again after subscribing, so that nothing is missed between.
                shown = self.request(id, of).await?;
                if shown.is_finished() || line.changed().await.is_err() {
                    return Ok::<_, Failure>(());
                }
            }
        };
        match tokio::time::timeout(patience, decided).await {
            Ok(Err(failure)) => Err(failure),
            Ok(Ok(())) | Err(_) => Ok(shown),
        }
    }

    /// A user's requests, the newest first; only the one at an event, where that is named.
    pub async fn requests_of(
        &self,
        user: &UserId,
        event_id: Option<EventId>,
        request: PageRequest<(i64, String)>,
    ) -> Result<Page<ShownRequest, (i64, String)>, Failure> {
        let (user, intake, page) = (user.clone(), Arc::clone(self.intake()), request.clone());
        let found = self.read(move |tx| {
            let mut rows = requests::of_user(tx, &intake.index, &user, OF_USER_MAX)?;
            if let Some(event_id) = &event_id {
                let line = requests::find_line(tx, event_id)?.map(|line| line.event_key);
                rows.retain(|row| Some(row.key.event_key()) == line);
            }
            rows.sort_by_key(|row| std::cmp::Reverse((row.queued_at, row.id)));
            let after = page.after.as_ref();
            let place = |row: &RequestRow| (row.queued_at.as_millis(), row.id.to_string());
            let page_rows = rows.into_iter().filter(|row| after.is_none_or(|after| place(row) < *after));
            let rows: Vec<_> = page_rows.take(page.limit + 1).collect();
            shown(tx, rows)
        });
        let place =
            |shown: &ShownRequest| (shown.request.queued_at.as_millis(), shown.request.id.to_string());
        Ok(request.page(found.await?, place))
    }

    /// An event's requests in the order of its line. A filtered page may come back short.
    pub async fn requests_of_event(
        &self,
        event_id: &EventId,
        filter: RequestFilter,
        request: PageRequest<i64>,
    ) -> Result<Page<ShownRequest, i64>, Failure> {
        self.event(event_id).await?;
        let (wanted, limit, after) = (event_id.clone(), request.limit, request.after.unwrap_or(0));
        let found = self.read(move |tx| {
            let Some(line) = requests::find_line(tx, &wanted)? else { return Ok((Vec::new(), None)) };
            let (rows, next) = if filter == RequestFilter::default() {
                let rows = requests::list(tx, line.event_key, after, limit_and_one(limit))?;
                (rows, None)
            } else if is_announcement_unwritten(tx, &wanted)? {
                filtered_as_announced(tx, &wanted, line.event_key, after, filter)?
            } else {
                let end = after.saturating_add(LOOKED_THROUGH_MAX).min(line.last_position);
                let (key, results, most) = (line.event_key, filter.bits(), limit_and_one(limit));
                let rows = requests::list_some(tx, key, after..end, results, most)?;
                (rows, (end < line.last_position).then_some(end))
            };
            let mut rows = rows;
            let cut = rows.len() > limit;
            rows.truncate(limit);
            let next = if cut { rows.last().map(|row| row.key.position()) } else { next };
            Ok((shown(tx, rows)?, next))
        });
        let (items, next) = found.await?;
        Ok(Page { items, next })
    }

    pub async fn summary(&self, event_id: &EventId) -> Result<Summary, Failure> {
        self.event(event_id).await?;
        let wanted = event_id.clone();
        let line = self.read(move |tx| requests::find_line(tx, &wanted)).await?;
        let nothing = || {
            Rejection::new(
                Code::EventNotOpen,
                "the event has no line: it was never open, or takes no requests",
            )
        };
        let line = line.ok_or_else(nothing)?;
        Ok(Summary::of(line))
    }
}

fn limit_and_one(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1
}

/// Whether a lottery is announced and its rows do not all say so yet.
fn is_announcement_unwritten(tx: &mut Tx<'_>, event_id: &EventId) -> Result<bool, Fault> {
    let announced =
        events::find(tx, event_id)?.is_some_and(|event| matches!(event.state, EventState::Announced { .. }));
    Ok(announced && !draws::is_finished(tx, event_id)?)
}

/// The rows of a stretch of the line that a filter lets through, by what was announced; and where the stretch ends.
fn filtered_as_announced(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    event_key: i64,
    after: i64,
    filter: RequestFilter,
) -> Result<(Vec<RequestRow>, Option<i64>), Fault> {
    let mut scanned = requests::list(tx, event_key, after, SCANNED_MAX)?;
    if let Some(event) = events::find(tx, event_id)? {
        announce_to(tx, &event, scanned.iter_mut().map(|row| (row.key, &mut row.state)).collect())?;
    }
    let whole = i64::try_from(scanned.len()).is_ok_and(|count| count < SCANNED_MAX);
    let last = scanned.last().map(|row| row.key.position()).filter(|_| !whole);
    Ok((scanned.into_iter().filter(|row| filter.lets_through(row)).collect(), last))
}

/// What is looked at once for all requests of an event.
struct Line {
    event: Arc<Event>,
    draw: Option<Draw>,
    decided_position: i64,
}

/// Adds to rows what is needed to show them, looking at each event once.
fn shown(tx: &mut Tx<'_>, mut rows: Vec<RequestRow>) -> Result<Vec<ShownRequest>, Fault> {
    let mut lines: BTreeMap<i64, Line> = BTreeMap::new();
    for row in &rows {
        let key = row.key.event_key();
        if let std::collections::btree_map::Entry::Vacant(place) = lines.entry(key) {
            let missing = || Fault::Inconsistent(format!("the line {key} has no event"));
            let event_id = requests::event_of_key(tx, key)?.ok_or_else(missing)?;
            let event = events::find(tx, &event_id)?.ok_or_else(missing)?;
            let line = requests::find_line(tx, &event_id)?.ok_or_else(missing)?;
            let draw = match event.settings.kind.event_type() {
                EventType::Lottery => draws::find(tx, &event_id)?.map(|row| row.draw),
                _ => None,
            };
            let event = Arc::new(event);
            place.insert(Line { event, draw, decided_position: line.decided_position });
        }
    }
    for (key, line) in &lines {
        let of_line = rows.iter_mut().filter(|row| row.key.event_key() == *key);
        announce_to(tx, &line.event, of_line.map(|row| (row.key, &mut row.state)).collect())?;
    }
    Ok(rows.into_iter().map(|row| show(&lines[&row.key.event_key()], row)).collect())
}

fn show(line: &Line, row: RequestRow) -> ShownRequest {
    let event = &line.event;
    let request = row.into_request(event);
    let lottery = (request.event_type == EventType::Lottery).then(|| Lottery {
        event: Arc::clone(event),
        receipt: line.draw.as_ref().map(|draw| receipt(draw, &request)),
    });
    ShownRequest { request, decided_position: line.decided_position, lottery }
}
