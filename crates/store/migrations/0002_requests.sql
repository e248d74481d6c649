-- Requests and their lines, the outbox, and the allocations of winners.

-- postgres: CREATE SCHEMA IF NOT EXISTS integration;

-- The counts of an event's line: written once for each group of people who join it.
CREATE TABLE event_lines (
    event_id TEXT NOT NULL PRIMARY KEY,
    event_key INTEGER NOT NULL UNIQUE,
    last_position INTEGER NOT NULL,
    decided_position INTEGER NOT NULL,
    capacity_total INTEGER NOT NULL,
    capacity_remaining INTEGER NOT NULL CHECK (capacity_remaining >= 0),
    tally TEXT NOT NULL,
    indexed_position INTEGER NOT NULL,
    swept_position INTEGER NOT NULL
) STRICT;

INSERT INTO counters (name, value) VALUES ('event_key', 0);

-- A line is stored in its order: the key is the event's number and the position in one integer.
CREATE TABLE requests (
    line INTEGER NOT NULL PRIMARY KEY,
    request_id BLOB NOT NULL,
    user_id TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    result INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER
) STRICT;

CREATE UNIQUE INDEX requests_by_id ON requests (request_id);

-- One request for each user and event. On PostgreSQL an index of the table; on SQLite a table of its own, which is
-- written later and in sorted runs, because a page for each request in random order is what costs there.
-- postgres: CREATE UNIQUE INDEX requests_by_user ON requests (user_id, (line >> 40));
-- sqlite: CREATE TABLE request_users (
-- sqlite:     user_id TEXT NOT NULL,
-- sqlite:     event_key INTEGER NOT NULL,
-- sqlite:     position INTEGER NOT NULL,
-- sqlite:     PRIMARY KEY (user_id, event_key)
-- sqlite: ) STRICT, WITHOUT ROWID;

CREATE TABLE integration.outbox_events (
    event_id BLOB NOT NULL PRIMARY KEY,
    channel TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    aggregate_type TEXT NOT NULL,
    aggregate_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    payload TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    worker_id TEXT,
    deadline INTEGER,
    next_attempt_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_events_unsent ON integration.outbox_events (channel, event_id) WHERE status IN ('NEW', 'SENDING');

CREATE TABLE event_reward_allocation (
    allocation_id BLOB NOT NULL PRIMARY KEY,
    event_id TEXT NOT NULL,
    member_id TEXT NOT NULL,
    request_id BLOB,
    reward_id TEXT NOT NULL,
    reward_status TEXT NOT NULL,
    idempotency_key TEXT NOT NULL UNIQUE,
    retry_count INTEGER NOT NULL,
    next_retry_at INTEGER,
    error_code TEXT,
    error_message TEXT,
    external_transaction_id TEXT,
    processed_at INTEGER,
    worker_id TEXT,
    deadline INTEGER,
    epoch INTEGER NOT NULL,
    outcome_unknown INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX event_reward_allocation_due ON event_reward_allocation (reward_status, next_retry_at)
    WHERE reward_status IN ('PENDING', 'FAILED');
CREATE INDEX event_reward_allocation_by_event ON event_reward_allocation (event_id, reward_status);
