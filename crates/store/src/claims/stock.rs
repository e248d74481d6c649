//! What claims took from the stock: each reward once, and given back once.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::claims::ClaimId;
use guerdon_core::{EventId, RewardId};

statements! {
    TAKE = "INSERT INTO claim_stock (claim_id, reward_id, event_id, quantity) VALUES ($1, $2, $3, $4)
        ON CONFLICT (claim_id, reward_id) DO NOTHING",
        postgres: "INSERT INTO claim_stock (claim_id, reward_id, event_id, quantity)
        SELECT * FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[]), CAST($4 AS BIGINT[]))
        ON CONFLICT (claim_id, reward_id) DO NOTHING";
    GIVE_BACK = "UPDATE claim_stock SET returned_at = $3
        WHERE claim_id = $1 AND reward_id = $2 AND returned_at IS NULL";
    ADD = "UPDATE event_rewards SET remaining_stock = remaining_stock + $3
        WHERE event_id = $1 AND reward_id = $2 AND remaining_stock + $3 <= total_stock";
    HELD_BY = "SELECT reward_id, quantity FROM claim_stock WHERE claim_id = $1 AND returned_at IS NULL
        ORDER BY reward_id";
    /// One statement, so that all of it is of one moment.
    AT = "SELECT r.reward_id, r.total_stock, r.remaining_stock, (SELECT CAST(COALESCE(SUM(s.quantity), 0) AS BIGINT)
            FROM claim_stock s WHERE s.event_id = r.event_id AND s.reward_id = r.reward_id AND s.returned_at IS NULL)
        FROM event_rewards r WHERE r.event_id = $1 AND r.total_stock IS NOT NULL ORDER BY r.ordinal";
}

/// What a claim takes, or gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub claim: ClaimId,
    pub event: EventId,
    pub reward: RewardId,
    pub quantity: i64,
}

/// Notes what claims take. Nobody takes a reward twice: that is a bug, and undoes the transaction.
pub fn take(tx: &mut Tx<'_>, parts: &[Part]) -> Result<(), Fault> {
    if parts.is_empty() {
        return Ok(());
    }
    let written = if tx.engine() == Engine::Sqlite {
        let rows = parts.iter().map(|part| {
            [
                Param::Blob(part.claim.as_bytes()),
                part.reward.as_str().into(),
                part.event.as_str().into(),
                part.quantity.into(),
            ]
        });
        tx.execute_rows(&TAKE, rows)?
    } else {
        let claims: Vec<&[u8]> = parts.iter().map(|part| part.claim.as_bytes().as_slice()).collect();
        let rewards: Vec<_> = parts.iter().map(|part| part.reward.as_str()).collect();
        let events: Vec<_> = parts.iter().map(|part| part.event.as_str()).collect();
        let quantities: Vec<_> = parts.iter().map(|part| part.quantity).collect();
        let params =
            [Param::Blobs(&claims), Param::Texts(&rewards), Param::Texts(&events), Param::Ints(&quantities)];
        tx.execute(&TAKE, &params)?
    };
    if usize::try_from(written) == Ok(parts.len()) {
        return Ok(());
    }
    Err(Fault::inconsistent("a claim takes what it has taken before"))
}

/// Notes what claims give back, each once.
pub fn give_back(tx: &mut Tx<'_>, parts: &[Part]) -> Result<(), Fault> {
    let now = tx.now();
    let rows = parts
        .iter()
        .map(|part| [Param::Blob(part.claim.as_bytes()), part.reward.as_str().into(), now.into()]);
    let written = tx.execute_rows(&GIVE_BACK, rows)?;
    if usize::try_from(written) == Ok(parts.len()) {
        return Ok(());
    }
    Err(Fault::inconsistent("a claim gives back what it does not have"))
}

/// Adds to a limited reward's stock what was given back, never beyond what there was.
pub fn add(tx: &mut Tx<'_>, event: &EventId, reward: &RewardId, count: i64) -> Result<(), Fault> {
    let params = [event.as_str().into(), reward.as_str().into(), count.into()];
    if tx.execute(&ADD, &params)? == 1 {
        return Ok(());
    }
    Err(Fault::inconsistent(format!("more of {reward} of {event} is given back than was taken")))
}

/// What a claim holds.
pub fn held_by(tx: &mut Tx<'_>, claim: ClaimId) -> Result<Vec<(String, i64)>, Fault> {
    tx.query(&HELD_BY, &[Param::Blob(claim.as_bytes())], |row| Ok((row.text(0)?.to_owned(), row.int(1)?)))
}

/// A limited reward: its total, what is left, and what claims hold or were granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockAt {
    pub reward_id: String,
    pub total: i64,
    pub remaining: i64,
    pub taken: i64,
}

pub fn at(tx: &mut Tx<'_>, event_id: &str) -> Result<Vec<StockAt>, Fault> {
    tx.query(&AT, &[event_id.into()], |row| {
        Ok(StockAt {
            reward_id: row.text(0)?.into(),
            total: row.int(1)?,
            remaining: row.int(2)?,
            taken: row.int(3)?,
        })
    })
}
