-- Delivering what was won, and the events in which it is won by taking part: attendance and random games.

ALTER TABLE event_reward_allocation ADD COLUMN entry_id BLOB;
ALTER TABLE event_reward_allocation ADD COLUMN provider TEXT NOT NULL DEFAULT 'default';
ALTER TABLE event_reward_allocation ADD COLUMN cancel_requested_at INTEGER;

UPDATE event_reward_allocation SET provider = COALESCE((SELECT COALESCE(r.provider,
        CASE r.kind WHEN 'POINT' THEN 'wallet' WHEN 'COUPON' THEN 'coupon' ELSE 'default' END)
    FROM event_rewards r WHERE r.event_id = event_reward_allocation.event_id
        AND r.reward_id = event_reward_allocation.reward_id), 'default');

DROP INDEX event_reward_allocation_due;
DROP INDEX event_reward_allocation_by_event;
-- What a provider has to deliver, and when: a row that is being delivered is due when its lease ends. By provider, so
-- that a slow one does not stand in the way of another.
CREATE INDEX event_reward_allocation_due ON event_reward_allocation (provider, next_retry_at)
    WHERE reward_status IN ('PENDING', 'FAILED', 'PROCESSING') AND next_retry_at IS NOT NULL;
CREATE INDEX event_reward_allocation_open ON event_reward_allocation (allocation_id)
    WHERE reward_status IN ('PENDING', 'FAILED', 'PROCESSING');
CREATE INDEX event_reward_allocation_open_by_event ON event_reward_allocation (event_id, allocation_id)
    WHERE reward_status IN ('PENDING', 'FAILED', 'PROCESSING');
CREATE INDEX event_reward_allocation_by_event ON event_reward_allocation (event_id, allocation_id);
CREATE INDEX event_reward_allocation_by_member ON event_reward_allocation (member_id, allocation_id);

-- postgres: ALTER TABLE event_reward_allocation SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- Many that are tried again because an operator wants it.
CREATE TABLE allocation_retries (
    retry_id BLOB NOT NULL PRIMARY KEY,
    filter TEXT NOT NULL,
    status TEXT NOT NULL,
    after_id BLOB NOT NULL,
    looked_at INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX allocation_retries_running ON allocation_retries (retry_id) WHERE status = 'RUNNING';

-- Where somebody stands in an event: entries in all, the day of the last one, and the run: days in a row, or plays of
-- that day. By the person first: an event has many people, and a plan that begins with the event would read them all.
CREATE TABLE event_entrants (
    event_id TEXT NOT NULL,
    member_id TEXT NOT NULL,
    last_day INTEGER NOT NULL,
    total INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (member_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_entry (
    entry_id BLOB NOT NULL PRIMARY KEY,
    event_id TEXT NOT NULL,
    member_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    number INTEGER NOT NULL,
    streak INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    odds_version INTEGER,
    drawn INTEGER,
    reward_id TEXT,
    idempotency_key TEXT
) STRICT, WITHOUT ROWID;

-- Every limit is a slot that one entry can have.
CREATE UNIQUE INDEX event_entry_slot ON event_entry (event_id, member_id, day, slot);
CREATE UNIQUE INDEX event_entry_number ON event_entry (event_id, member_id, number);
CREATE UNIQUE INDEX event_entry_key ON event_entry (member_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
