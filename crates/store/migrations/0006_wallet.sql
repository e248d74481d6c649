-- Accounts, transfers and the ledger; idempotency keys.

-- postgres: CREATE SCHEMA IF NOT EXISTS core;

INSERT INTO counters (name, value) VALUES ('account', 0);

-- A currency's scale is settled by its first account. What is deposited comes from its issue account.
CREATE TABLE core.currency (
    currency TEXT NOT NULL PRIMARY KEY,
    scale INTEGER NOT NULL,
    issue_account_id INTEGER NOT NULL
) STRICT;

-- Balances are in the currency's smallest unit. Entries are numbered for each account, without gaps.
CREATE TABLE core.account (
    account_id INTEGER NOT NULL PRIMARY KEY,
    owner_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    currency TEXT NOT NULL,
    scale INTEGER NOT NULL,
    status TEXT NOT NULL,
    balance INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    CHECK (kind = 'SYSTEM' OR balance >= 0)
) STRICT;

-- A balance changes with every transfer and nothing that is indexed does.
-- postgres: ALTER TABLE core.account SET (fillfactor = 50);

CREATE UNIQUE INDEX account_by_owner ON core.account (owner_id, currency);

-- What system accounts hold for the second and further processes that pay out of them.
CREATE TABLE core.account_slot (
    account_id INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    balance INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE core.transfer (
    transfer_id BLOB NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    from_account_id INTEGER NOT NULL,
    from_slot INTEGER NOT NULL,
    from_number INTEGER NOT NULL,
    from_balance INTEGER NOT NULL,
    to_account_id INTEGER NOT NULL,
    to_slot INTEGER NOT NULL,
    to_number INTEGER NOT NULL,
    to_balance INTEGER NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    refunded INTEGER NOT NULL CHECK (refunded >= 0 AND refunded <= amount),
    refund_of BLOB,
    client_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX transfer_refunds ON core.transfer (refund_of) WHERE refund_of IS NOT NULL;

-- Transfers whose entries are yet to be written.
CREATE TABLE core.ledger_backlog (
    transfer_id BLOB NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rows come and go with every transfer.
-- postgres: ALTER TABLE core.ledger_backlog SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);

CREATE TABLE core.ledger_entry (
    account_id INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    number INTEGER NOT NULL,
    transfer_id BLOB NOT NULL,
    side TEXT NOT NULL,
    amount INTEGER NOT NULL,
    balance_after INTEGER NOT NULL,
    PRIMARY KEY (account_id, slot, created_at, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX ledger_entry_once ON core.ledger_entry (transfer_id, account_id, side);

-- Ours are ordered by time, so the key comes first and the table is appended to.
CREATE TABLE integration.idempotency_key (
    idempotency_key TEXT NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    status TEXT,
    epoch INTEGER NOT NULL,
    request_hash BLOB,
    resource_id BLOB,
    response_status INTEGER,
    response_snapshot TEXT,
    error_code TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    started_at INTEGER,
    deadline INTEGER,
    completed_at INTEGER,
    PRIMARY KEY (idempotency_key, client_id, scope)
) STRICT, WITHOUT ROWID;

-- postgres: ALTER TABLE integration.idempotency_key SET (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX idempotency_key_in_progress ON integration.idempotency_key (deadline)
    WHERE status = 'IN_PROGRESS' AND scope = 'TRANSFER';
CREATE INDEX idempotency_key_by_age ON integration.idempotency_key (created_at);
