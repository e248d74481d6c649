//! What is said of requests. A message about one is stored without its text, which would repeat the request's row: the
//! text is most of what a message weighs, and every application writes one. Whoever reads a message gets it whole.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::requests::{self, RequestRow};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::EventId;
use guerdon_core::outbox::{Message, MessageId};
use guerdon_core::requests::view::RequestDecided;
use guerdon_core::requests::{RequestId, RequestState};
use std::collections::HashMap;

statements! {
    KEPT = "SELECT payload FROM integration.outbox_events WHERE event_id = $1";
    /// Whatever was told of it: a request that goes leaves its text behind.
    KEEP = "UPDATE integration.outbox_events SET payload = $2 WHERE event_id = $1 AND payload = ''",
        postgres: "UPDATE integration.outbox_events m SET payload = row.payload
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[])) AS row (id, payload)
        WHERE m.event_id = row.id AND m.payload = ''";
}

/// What others hear of a request once it is decided.
fn text(event_id: &EventId, row: &RequestRow) -> Result<Option<String>, Fault> {
    let RequestState::Finished { result, finished_at, .. } = row.state else { return Ok(None) };
    let decided = RequestDecided {
        request_id: row.id.to_string(),
        event_id: event_id.as_str(),
        user_id: row.user_id.as_str(),
        status: result.status(),
        result_code: result,
        position: row.key.position(),
        requested_at: row.requested_at,
        finished_at,
    };
    serde_json::to_string(&decided).map(Some).map_err(|error| Fault::inconsistent(error.to_string()))
}

/// The id of the message that tells of a request's decision.
pub fn message_of(request: RequestId) -> MessageId {
    MessageId::from_bytes(*request.derived(0).as_bytes())
}

/// Gives these messages the text that their requests have.
pub(super) fn complete<'m>(
    tx: &mut Tx<'_>,
    messages: impl Iterator<Item = &'m mut Message>,
) -> Result<(), Fault> {
    let mut bare: Vec<_> = messages
        .filter(|message| message.payload.is_empty() && message.aggregate_type == "REQUEST")
        .collect();
    if bare.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = bare.iter().filter_map(|message| RequestId::parse(&message.aggregate_id)).collect();
    let rows: HashMap<_, _> =
        requests::find_all(tx, &ids)?.into_iter().map(|row| (row.id.to_string(), row)).collect();
    let mut events: HashMap<i64, Option<EventId>> = HashMap::new();
    for message in &mut bare {
        let Some(row) = rows.get(&message.aggregate_id) else { continue };
        let key = row.key.event_key();
        if let std::collections::hash_map::Entry::Vacant(entry) = events.entry(key) {
            entry.insert(requests::event_of_key(tx, key)?);
        }
        if let Some(Some(event_id)) = events.get(&key)
            && let Some(text) = text(event_id, row)?
        {
            message.payload = text;
        }
    }
    for message in bare.iter_mut().filter(|message| message.payload.is_empty()) {
        // Its request may have been swept since the message was read: then the text is there.
        let kept =
            tx.query_one(&KEPT, &[Param::Blob(message.id.as_bytes())], |row| Ok(row.text(0)?.to_owned()))?;
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            message.payload = kept;
            continue;
        }
        // Only somebody's own hand in the database removes a request and leaves its message bare.
        tracing::error!(request_id = message.aggregate_id, "a message is about a request that is not there");
        message.payload.push_str("null");
    }
    Ok(())
}

/// Writes out what was told of requests that are about to be removed.
pub(crate) fn keep(tx: &mut Tx<'_>, event_id: &EventId, rows: &[RequestRow]) -> Result<(), Fault> {
    let mut texts = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(text) = text(event_id, row)? {
            texts.push((message_of(row.id), text));
        }
    }
    if tx.engine() == Engine::Sqlite {
        let rows = texts.iter().map(|(id, text)| [Param::Blob(id.as_bytes()), text.into()]);
        return tx.execute_rows(&KEEP, rows).map(drop);
    }
    let (ids, texts): (Vec<&[u8]>, Vec<&str>) =
        texts.iter().map(|(id, text)| (id.as_bytes().as_slice(), text.as_str())).unzip();
    tx.execute(&KEEP, &[Param::Blobs(&ids), Param::Texts(&texts)]).map(drop)
}
