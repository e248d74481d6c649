-- Events, their rewards, the user registry, the audit log.
-- Written for SQLite; the migrator turns the types into PostgreSQL's (see migrate.rs).

CREATE TABLE events (
    event_id TEXT NOT NULL PRIMARY KEY,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    name TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    opened_at INTEGER,
    closed_at INTEGER,
    announced_at INTEGER,
    cancelled_at INTEGER,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX events_by_status ON events (status, starts_at, event_id);
CREATE INDEX events_by_creation ON events (created_at, event_id);

CREATE TABLE event_rewards (
    event_id TEXT NOT NULL,
    reward_id TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    kind TEXT NOT NULL,
    quantity INTEGER NOT NULL,
    total_stock INTEGER,
    remaining_stock INTEGER CHECK (remaining_stock >= 0),
    amount TEXT,
    currency TEXT,
    coupon_id TEXT,
    provider TEXT,
    details TEXT,
    PRIMARY KEY (event_id, reward_id)
) STRICT;

CREATE TABLE users (
    user_id TEXT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX users_not_active ON users (user_id) WHERE status <> 'ACTIVE';

-- The last transaction that each process committed: how a COMMIT whose answer was lost is settled.
CREATE TABLE commit_marks (
    name TEXT NOT NULL PRIMARY KEY,
    mark INTEGER NOT NULL
) STRICT;

-- Numbers that are handed out without gaps, in the order of commits: the row is locked by whoever takes the next one.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

INSERT INTO counters (name, value) VALUES ('audit_log', 0);

CREATE TABLE audit_log (
    sequence INTEGER NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    request_id TEXT NOT NULL,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    before_json TEXT,
    after_json TEXT
) STRICT;

CREATE INDEX audit_log_by_target ON audit_log (target_type, target_id, sequence);
