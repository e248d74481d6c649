-- Coupons: what there is to issue, how many of it are issued, and who has one.

INSERT INTO counters (name, value) VALUES ('coupon', 0);

CREATE TABLE coupon (
    coupon_id TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    total_quantity INTEGER NOT NULL,
    per_user_limit INTEGER NOT NULL,
    valid_from INTEGER NOT NULL,
    valid_until INTEGER NOT NULL,
    benefit TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- When all that nobody used in time was ended.
    expired_at INTEGER
) STRICT;

CREATE UNIQUE INDEX coupon_number ON coupon (number);
CREATE INDEX coupon_expiring ON coupon (valid_until) WHERE expired_at IS NULL;

-- The count, apart from the coupon: whoever reads a coupon does not wait for whoever issues it.
CREATE TABLE coupon_count (
    coupon_id TEXT NOT NULL PRIMARY KEY,
    total_quantity INTEGER NOT NULL,
    issued INTEGER NOT NULL,
    -- Raised whenever Redis is counted anew; what was counted before that is counted again.
    epoch INTEGER NOT NULL,
    -- The Redis that was counted for this epoch, and who is counting until when.
    instance TEXT,
    worker_id TEXT,
    deadline INTEGER,
    CHECK (issued >= 0 AND issued <= total_quantity)
) STRICT, WITHOUT ROWID;

-- postgres: ALTER TABLE coupon_count SET (fillfactor = 50);

CREATE TABLE user_coupon (
    user_coupon_id BLOB NOT NULL PRIMARY KEY,
    coupon_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    status TEXT NOT NULL,
    result_code TEXT,
    -- Which one of those that a user can have it is.
    slot INTEGER,
    idempotency_key TEXT NOT NULL,
    order_id TEXT,
    note TEXT,
    version INTEGER NOT NULL,
    requested_at INTEGER NOT NULL,
    decided_at INTEGER,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last word about how many a user has; also the way to all that is theirs. The one index in the users' order: a
-- second would cost as much as the rest of an issue.
CREATE UNIQUE INDEX user_coupon_slot ON user_coupon (user_id, coupon_id, slot);
-- With the place, so that those who have one are counted without a look at their rows.
CREATE INDEX user_coupon_by_coupon ON user_coupon (coupon_id, user_coupon_id, slot);
-- On SQLite one process writes, and looks before it does.
-- postgres: CREATE UNIQUE INDEX user_coupon_key ON user_coupon (user_id, coupon_id, idempotency_key);

-- postgres: ALTER TABLE user_coupon SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- What is yet to be counted by Redis.
CREATE INDEX outbox_events_coupon ON integration.outbox_events (event_id)
    WHERE status IN ('NEW', 'SENDING') AND channel = 'coupon';
