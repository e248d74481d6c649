//! TX1's writes on PostgreSQL in one statement: each further one would cost a round trip while the accounts are held.

use super::accounts;
use super::transfers::Made;
use crate::fault::Fault;
use crate::outbox::{Publishing, traceparent};
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::outbox::shard_of;
use guerdon_core::wallet::{Book, Books, Posted};

statements! {
    /// Nothing of it sees what another part of it writes, and nothing has to.
    WRITE = "WITH made AS (
            SELECT * FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]),
                CAST($5 AS BIGINT[]), CAST($6 AS BIGINT[]), CAST($7 AS BIGINT[]), CAST($8 AS BIGINT[]),
                CAST($9 AS BIGINT[]), CAST($10 AS BIGINT[]), CAST($11 AS BIGINT[]), CAST($12 AS BYTEA[]),
                CAST($13 AS TEXT[]), CAST($14 AS TEXT[]), CAST($15 AS BIGINT[]), CAST($16 AS BYTEA[]),
                CAST($17 AS TEXT[]), CAST($18 AS TEXT[]), CAST($19 AS TEXT[]), CAST($26 AS BIGINT[]),
                CAST($27 AS TEXT[]))
                AS row (id, kind, from_id, from_slot, from_number, from_balance, to_id, to_slot, to_number, to_balance,
                    amount, refund_of, client, key, created_at, message_id, name, event_type, payload, shard, trace)),
        transfers AS (INSERT INTO core.transfer (transfer_id, kind, from_account_id, from_slot, from_number, from_balance,
                to_account_id, to_slot, to_number, to_balance, amount, refunded, refund_of, client_id, idempotency_key,
                created_at, status)
            SELECT id, kind, from_id, from_slot, from_number, from_balance, to_id, to_slot, to_number, to_balance, amount,
                0, NULLIF(refund_of, CAST('' AS BYTEA)), client, key, created_at, 'SUCCEEDED' FROM made),
        owed AS (INSERT INTO core.ledger_backlog (transfer_id, created_at) SELECT id, created_at FROM made),
        told AS (INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id,
                event_type, payload, status, created_at, attempts, shard, trace)
            SELECT message_id, 'broker', 1, 'TRANSFER', name, event_type, payload, $20, $21, 0, shard, NULLIF(trace, '')
            FROM made)
        UPDATE core.account a SET balance = row.balance, entries = row.entries, changed_at = row.changed_at
        FROM unnest(CAST($22 AS BIGINT[]), CAST($23 AS BIGINT[]), CAST($24 AS BIGINT[]), CAST($25 AS BIGINT[]))
            AS row (id, balance, entries, changed_at)
        WHERE a.account_id = row.id";
}

pub(super) fn write(
    tx: &mut Tx<'_>,
    books: &Books,
    made: &[Made],
    publishing: Publishing,
) -> Result<(), Fault> {
    let held = accounts::write_slots(tx, books)?;
    let numbers =
        |value: fn(&Posted) -> i64| made.iter().map(|made| value(&made.transfer.posted)).collect::<Vec<_>>();
    let columns = [
        numbers(|posted| posted.from.account.number()),
        numbers(|posted| posted.from.slot),
        numbers(|posted| posted.from.number),
        numbers(|posted| posted.from.balance),
        numbers(|posted| posted.to.account.number()),
        numbers(|posted| posted.to.slot),
        numbers(|posted| posted.to.number),
        numbers(|posted| posted.to.balance),
        numbers(|posted| posted.amount),
    ];
    let at = numbers(|posted| posted.at.as_millis());
    let ids: Vec<&[u8]> = made.iter().map(|made| made.transfer.id.as_bytes().as_slice()).collect();
    let kinds: Vec<_> = made.iter().map(|made| made.transfer.kind.as_str()).collect();
    let refunds: Vec<&[u8]> = made
        .iter()
        .map(|made| made.transfer.refund_of.as_ref().map_or(&[] as &[u8], |id| id.as_bytes()))
        .collect();
    let clients: Vec<_> = made.iter().map(|made| made.transfer.client.as_str()).collect();
    let keys: Vec<_> = made.iter().map(|made| made.transfer.key.as_str()).collect();
    let message_ids: Vec<_> = made.iter().map(|made| made.transfer.id.message_id()).collect();
    let message_ids: Vec<&[u8]> = message_ids.iter().map(<[u8; 16]>::as_slice).collect();
    let names: Vec<_> = made.iter().map(|made| made.transfer.id.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let shards: Vec<_> = names.iter().map(|name| shard_of(name)).collect();
    let types: Vec<_> = made.iter().map(|made| made.transfer.kind.message()).collect();
    let payloads: Vec<_> = made.iter().map(|made| made.payload.as_str()).collect();
    let of_books = |value: fn(&Book) -> i64| held.iter().map(|book| value(book)).collect::<Vec<_>>();
    let books = [
        of_books(|book| book.account.number()),
        of_books(|book| book.balance),
        of_books(|book| book.entries),
        of_books(|book| book.changed_at.as_millis()),
    ];
    let mut params = vec![Param::Blobs(&ids), Param::Texts(&kinds)];
    params.extend(columns.iter().map(|column| Param::Ints(column)));
    params.extend([Param::Blobs(&refunds), Param::Texts(&clients), Param::Texts(&keys), Param::Ints(&at)]);
    params.extend([
        Param::Blobs(&message_ids),
        Param::Texts(&names),
        Param::Texts(&types),
        Param::Texts(&payloads),
    ]);
    params.extend([Param::Text(publishing.status()), Param::from(tx.now())]);
    params.extend(books.iter().map(|column| Param::Ints(column)));
    let traces: Vec<_> = names.iter().map(|name| traceparent(tx, name)).collect();
    let traces: Vec<_> = traces.iter().map(String::as_str).collect();
    params.extend([Param::Ints(&shards), Param::Texts(&traces)]);
    if publishing == Publishing::Broker {
        tx.tells();
    }
    let written = tx.execute(&WRITE, &params)?;
    accounts::expect_rows(written, held.len())
}
