-- Publishing what the outbox holds, and the consumer's own records.

-- Messages about one aggregate are in one shard, and a shard is published by one process at a time.
ALTER TABLE integration.outbox_events ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
ALTER TABLE integration.outbox_events ADD COLUMN last_error TEXT;

-- postgres: DROP INDEX integration.outbox_events_unsent;
-- sqlite: DROP INDEX outbox_events_unsent;
-- By the time, so that it is appended to: with the shard before it every new message would go somewhere else.
CREATE INDEX outbox_events_unsent ON integration.outbox_events (created_at, event_id)
    WHERE status IN ('NEW', 'SENDING') AND channel = 'broker';
CREATE INDEX outbox_events_dead ON integration.outbox_events (event_id) WHERE status = 'DEAD';
-- Aggregates with more than one message: whether an earlier one is still to be sent.
CREATE INDEX outbox_events_ordered ON integration.outbox_events (aggregate_id, sequence)
    WHERE status IN ('NEW', 'SENDING', 'DEAD') AND aggregate_type NOT IN ('REQUEST', 'TRANSFER');

-- Every message is written twice: when it is made, and when it was sent.
-- postgres: ALTER TABLE integration.outbox_events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE TABLE integration.outbox_shards (
    channel TEXT NOT NULL,
    shard INTEGER NOT NULL,
    worker_id TEXT,
    deadline INTEGER NOT NULL,
    PRIMARY KEY (channel, shard)
) STRICT, WITHOUT ROWID;

INSERT INTO integration.outbox_shards (channel, shard, deadline)
VALUES ('broker', 0, 0), ('broker', 1, 0), ('broker', 2, 0), ('broker', 3, 0),
    ('broker', 4, 0), ('broker', 5, 0), ('broker', 6, 0), ('broker', 7, 0),
    ('broker', 8, 0), ('broker', 9, 0), ('broker', 10, 0), ('broker', 11, 0),
    ('broker', 12, 0), ('broker', 13, 0), ('broker', 14, 0), ('broker', 15, 0);

-- Publishers that are alive, whether or not they have a shard.
CREATE TABLE integration.outbox_workers (
    channel TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    deadline INTEGER NOT NULL,
    PRIMARY KEY (channel, worker_id)
) STRICT, WITHOUT ROWID;

-- Addresses that said that they want nothing more.
CREATE TABLE integration.outbox_disabled (
    address TEXT NOT NULL PRIMARY KEY,
    disabled_at INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;

-- Messages older than this may have been removed.
INSERT INTO counters (name, value) VALUES ('outbox_swept', 0);

CREATE TABLE integration.processed_events (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    processed_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX processed_events_by_age ON integration.processed_events (processed_at);

-- What the consumer's handler does: who was told what.
CREATE TABLE integration.notifications (
    notification_id BLOB NOT NULL PRIMARY KEY,
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    aggregate_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    recipient TEXT,
    data TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX notifications_by_event ON integration.notifications (event_id);
