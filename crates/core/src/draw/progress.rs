//! How far a draw has come, and what of it may be seen.

use super::{Entry, Hash, Secret, Terms, commitment, leaf, salt};
use crate::events::{Event, EventKind, EventStatus};
use crate::id::{EventId, UserId};
use crate::requests::RequestId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Each step is durable before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DrawState {
    /// Committed to its seed; people enter.
    Collecting,
    /// The cutoff has passed and the entries are counted; the tree is being built.
    Sealed,
    /// The root is published. Only now may a nonce be named.
    Rooted,
    /// The winners follow, and are being written where nobody sees them.
    Drawing,
    /// Everybody knows, the seed included.
    Announced,
    /// The event was cancelled.
    Void,
}

impl DrawState {
    pub const ALL: [DrawState; 6] =
        [Self::Collecting, Self::Sealed, Self::Rooted, Self::Drawing, Self::Announced, Self::Void];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Collecting => "COLLECTING",
            Self::Sealed => "SEALED",
            Self::Rooted => "ROOTED",
            Self::Drawing => "DRAWING",
            Self::Announced => "ANNOUNCED",
            Self::Void => "VOID",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    pub event_id: EventId,
    pub seed: Secret,
    /// What the leaves are salted with; never revealed.
    pub salt_key: Secret,
    pub commitment: Hash,
    pub state: DrawState,
    /// How many entered, counted at the cutoff.
    pub entries: i64,
    pub root: Option<Hash>,
    pub rooted_at: Option<Timestamp>,
    pub public_nonce: Option<String>,
    /// How many chunks of leaves are written.
    pub leaf_chunks: i64,
    /// How many of the winners are written.
    pub winners_written: i64,
    /// Up to which position every entry knows what became of it, and others were told.
    pub settled_position: i64,
}

impl Draw {
    /// The draw of an event that opens; none unless it is a lottery.
    pub fn open(event: &Event, seed: Secret, salt_key: Secret) -> Option<Self> {
        let commitment = commitment(seed.reveal(), terms(event)?);
        Some(Self {
            event_id: event.id.clone(),
            seed,
            salt_key,
            commitment,
            state: DrawState::Collecting,
            entries: 0,
            root: None,
            rooted_at: None,
            public_nonce: None,
            leaf_chunks: 0,
            winners_written: 0,
            settled_position: 0,
        })
    }

    /// The leaf that stands for an entry.
    pub fn leaf_of(&self, position: i64, request_id: RequestId, user_id: &UserId) -> Hash {
        let position = u64::try_from(position).unwrap_or(0);
        let request_id = request_id.to_string();
        let entry = Entry { event_id: &self.event_id, position, request_id: &request_id, user_id };
        leaf(entry, &salt(&self.salt_key, position))
    }

    /// After the announcement, and also when the event is cancelled after its root was published.
    pub fn seed_is_revealed(&self) -> bool {
        match self.state {
            DrawState::Announced => true,
            DrawState::Void => self.root.is_some(),
            DrawState::Collecting | DrawState::Sealed | DrawState::Rooted | DrawState::Drawing => false,
        }
    }
}

/// What a lottery is bound to; none for other events.
pub fn terms(event: &Event) -> Option<Terms<'_>> {
    let EventKind::Lottery { capacity_total, lottery_cutoff_at, public_nonce_source } = &event.settings.kind
    else {
        return None;
    };
    Some(Terms {
        event_id: event.id.as_str(),
        capacity_total: u64::try_from(*capacity_total).unwrap_or(0),
        cutoff: *lottery_cutoff_at,
        nonce_source: public_nonce_source.as_deref().unwrap_or_default(),
    })
}

/// How a draw reads.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrawView {
    pub event_id: String,
    pub status: DrawState,
    pub capacity_total: u64,
    #[schema(value_type = i64)]
    pub lottery_cutoff_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_nonce_source: Option<String>,
    /// Published when the event opened: SHA-256 over the seed and the terms.
    #[schema(value_type = String)]
    pub commitment: Hash,
    /// How many entered; known from the cutoff on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<i64>,
    /// The root of the tree over the entries; published before the nonce is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub root: Option<Hash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub rooted_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_nonce: Option<String>,
    /// Revealed with the announcement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub seed: Option<Hash>,
    /// How many won; known from the announcement on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winners: Option<i64>,
    /// How many entries have their rewards and messages; those follow the announcement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub announced_at: Option<Timestamp>,
    /// Whether even whoever runs the server could not choose the winners.
    pub protects_against_operator: bool,
    /// What that means, in words.
    pub note: &'static str,
}

const WITH_NONCE: &str = "The winners follow from a seed that was committed to before anybody entered, from the entries, \
    and from a public nonce that nobody knew when the entries were fixed.";
const WITHOUT_NONCE: &str = "The winners follow from a seed that was committed to before anybody entered, and from the \
    entries. Without a public nonce this does not protect against whoever runs the server and knows the seed.";

impl DrawView {
    /// None for an event that is no lottery.
    pub fn of(draw: &Draw, event: &Event) -> Option<Self> {
        let EventKind::Lottery { capacity_total, lottery_cutoff_at, public_nonce_source } =
            &event.settings.kind
        else {
            return None;
        };
        let announced = draw.state == DrawState::Announced && event.status() == EventStatus::Announced;
        let sealed = draw.state != DrawState::Collecting;
        let has_source = public_nonce_source.is_some();
        Some(Self {
            event_id: event.id.to_string(),
            status: draw.state,
            capacity_total: u64::try_from(*capacity_total).unwrap_or(0),
            lottery_cutoff_at: *lottery_cutoff_at,
            public_nonce_source: public_nonce_source.clone(),
            commitment: draw.commitment,
            entries: (sealed && (draw.state != DrawState::Void || draw.root.is_some()))
                .then_some(draw.entries),
            root: draw.root,
            rooted_at: draw.rooted_at,
            public_nonce: draw.public_nonce.clone(),
            seed: draw.seed_is_revealed().then(|| Hash::from_bytes(*draw.seed.reveal())),
            settled: announced.then_some(draw.settled_position),
            winners: announced.then(|| draw.entries.min(*capacity_total)),
            announced_at: event.state.times().announced_at.filter(|_| announced),
            protects_against_operator: has_source,
            note: if has_source { WITH_NONCE } else { WITHOUT_NONCE },
        })
    }
}
