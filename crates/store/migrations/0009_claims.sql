-- Claims: an event's rewards for whoever meets its conditions, as a saga.

CREATE TABLE user_reward_requests (
    claim_id BLOB NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    status TEXT NOT NULL,
    current_saga_step TEXT NOT NULL,
    -- 1 while it keeps its user from another claim at the same event.
    live INTEGER,
    -- Who has to do something next, and when: of one that somebody is at, when their lease ends.
    waits_for TEXT,
    next_at INTEGER,
    expires_at INTEGER,
    worker_id TEXT,
    epoch INTEGER NOT NULL,
    event_snapshot TEXT NOT NULL,
    checked_data_snapshot TEXT,
    progress TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX user_reward_requests_live ON user_reward_requests (user_id, event_id) WHERE live IS NOT NULL;
CREATE INDEX user_reward_requests_by_user ON user_reward_requests (user_id, claim_id);
CREATE INDEX user_reward_requests_by_event ON user_reward_requests (event_id, claim_id);
CREATE INDEX user_reward_requests_due ON user_reward_requests (waits_for, next_at)
    WHERE waits_for IS NOT NULL AND next_at IS NOT NULL;
CREATE INDEX user_reward_requests_expiring ON user_reward_requests (expires_at) WHERE expires_at IS NOT NULL;
-- What is neither granted nor refused: what goes on, and what needs a hand.
CREATE INDEX user_reward_requests_open ON user_reward_requests (status, claim_id)
    WHERE live IS NOT NULL AND status NOT IN ('SUCCESS_ALL_GRANTED', 'REWARD_PARTIALLY_GRANTED');

-- postgres: ALTER TABLE user_reward_requests SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- What a claim took from the stock. It can take a reward once, and give it back once.
CREATE TABLE claim_stock (
    claim_id BLOB NOT NULL,
    reward_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    returned_at INTEGER,
    PRIMARY KEY (claim_id, reward_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX claim_stock_held ON claim_stock (event_id, reward_id, claim_id) WHERE returned_at IS NULL;

-- What is known of users' activity, by which conditions are judged.
CREATE TABLE user_activity (
    user_id TEXT NOT NULL PRIMARY KEY,
    activity TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
