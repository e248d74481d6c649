//! Looking at a draw: what was published, the document, and the proof of one's own entry.

use super::find_lottery;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::draw::document::VERSION;
use guerdon_core::draw::{CHUNK_LEAVES, Document, Draw, DrawState, DrawView, Hash, Proof};
use guerdon_core::draw::{path_over_chunks, salt, winners};
use guerdon_core::{Code, EventId, Rejection, UserId};
use guerdon_store::{Fault, draws, requests};
use std::sync::Arc;

/// The most requests of one user that are looked at.
const OF_USER_MAX: i64 = 10_000;
/// Chunks of leaves that a document is put together from at a time.
const CHUNKS_READ: i64 = 8;

/// A draw's document without its leaves, of which there may be millions.
#[derive(Clone, Debug)]
pub struct DrawHead {
    pub document: Document,
    event_key: i64,
    chunks: i64,
}

impl Engine {
    pub async fn draw(&self, event_id: &EventId) -> Result<DrawView, Failure> {
        let wanted = event_id.clone();
        let (event, row) = self.read(move |tx| find_lottery(tx, &wanted)).await??;
        let view = DrawView::of(&row.draw, &event);
        Ok(view.ok_or_else(|| Fault::Inconsistent(format!("the draw of {event_id} cannot be shown")))?)
    }

    /// What the document of an announced draw begins with.
    pub async fn draw_document(&self, event_id: &EventId) -> Result<DrawHead, Failure> {
        let wanted = event_id.clone();
        let (event, row) = self.read(move |tx| find_lottery(tx, &wanted)).await??;
        let view = DrawView::of(&row.draw, &event);
        let (Some(view), Draw { state: DrawState::Announced, root: Some(root), .. }) = (view, &row.draw)
        else {
            let detail = "the document is there once the winners are announced";
            return Err(Rejection::new(Code::DrawNotReady, detail).into());
        };
        let (draw, root, chunks) = (row.draw.clone(), *root, row.draw.leaf_chunks);
        let entries = u64::try_from(draw.entries).unwrap_or(0);
        // However many ask for it at once.
        let _turn = self.documents.acquire().await.map_err(|_| Fault::Stopping)?;
        let drawn = tokio::task::spawn_blocking(move || {
            let nonce = draw.public_nonce.as_deref().unwrap_or_default();
            winners(draw.seed.reveal(), &root, nonce, entries, view.capacity_total)
        });
        let document = Document {
            version: VERSION,
            event_id: view.event_id,
            capacity_total: view.capacity_total,
            lottery_cutoff_at: view.lottery_cutoff_at.as_millis(),
            public_nonce_source: view.public_nonce_source,
            commitment: view.commitment,
            entries,
            root,
            public_nonce: view.public_nonce,
            seed: Hash::from_bytes(*row.draw.seed.reveal()),
            leaves: Vec::new(),
            winners: drawn.await.map_err(|_| Fault::Panicked)?,
        };
        Ok(DrawHead { document, event_key: row.event_key, chunks })
    }

    /// The document's leaves from a chunk on, and the chunk that comes next, if there is one.
    pub async fn draw_leaves(&self, head: &DrawHead, from: i64) -> Result<(Vec<Hash>, Option<i64>), Failure> {
        let (event_key, to) = (head.event_key, (from + CHUNKS_READ).min(head.chunks));
        let leaves = self.read(move |tx| draws::leaves(tx, event_key, from, to)).await?;
        Ok((leaves, (to < head.chunks).then_some(to)))
    }

    /// That somebody's own entry is in the tree.
    pub async fn draw_proof(&self, event_id: &EventId, user_id: &UserId) -> Result<Proof, Failure> {
        let (wanted, user, intake) = (event_id.clone(), user_id.clone(), Arc::clone(self.intake()));
        // By itself: who is not in the user index yet is found in memory, before the first statement is run.
        let mine = self.read(move |tx| requests::of_user(tx, &intake.index, &user, OF_USER_MAX)).await?;
        let user = user_id.clone();
        let found = self.read(move |tx| {
            let row = match find_lottery(tx, &wanted)? {
                Ok((_, row)) => row,
                Err(rejection) => return Ok(Err(rejection)),
            };
            let Some(root) = row.draw.root else {
                let detail = "proofs are there once the entries have closed and the root is published";
                return Ok(Err(Rejection::new(Code::DrawNotReady, detail)));
            };
            let Some(request) = mine.iter().find(|mine| mine.key.event_key() == row.event_key) else {
                let detail = format!("you have no entry in {wanted}");
                return Ok(Err(Rejection::new(Code::RequestNotFound, detail)));
            };
            let position = u64::try_from(request.key.position()).unwrap_or(0);
            let index = usize::try_from(position.saturating_sub(1)).unwrap_or(0);
            let chunk = i64::try_from(index / CHUNK_LEAVES).unwrap_or(i64::MAX);
            let leaves = draws::leaves(tx, row.event_key, chunk, chunk + 1)?;
            let roots = draws::leaf_roots(tx, row.event_key)?;
            let leaf = leaves.get(index % CHUNK_LEAVES).copied();
            let leaf = leaf.ok_or_else(|| Fault::Inconsistent(format!("{wanted} has no leaf {position}")))?;
            Ok(Ok(Proof {
                event_id: wanted.to_string(),
                position,
                request_id: request.id.to_string(),
                user_id: user.to_string(),
                salt: salt(&row.draw.salt_key, position),
                leaf,
                entries: u64::try_from(row.draw.entries).unwrap_or(0),
                root,
                path: path_over_chunks(&leaves, &roots, index),
            }))
        });
        Ok(found.await??)
    }
}
