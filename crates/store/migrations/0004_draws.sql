-- The draws of lotteries. A seed is a secret until the announcement: it is in no other table, and no view shows it before.

CREATE TABLE draws (
    event_id TEXT NOT NULL PRIMARY KEY,
    event_key INTEGER NOT NULL UNIQUE,
    seed BLOB NOT NULL,
    salt_key BLOB NOT NULL,
    commitment BLOB NOT NULL,
    cutoff_at INTEGER NOT NULL,
    awaits_nonce INTEGER NOT NULL,
    state TEXT NOT NULL,
    entries INTEGER NOT NULL,
    root BLOB,
    rooted_at INTEGER,
    public_nonce TEXT,
    leaf_chunks INTEGER NOT NULL,
    winners_written INTEGER NOT NULL,
    settled_position INTEGER NOT NULL,
    finished INTEGER NOT NULL
) STRICT;

CREATE INDEX draws_unfinished ON draws (cutoff_at, event_id) WHERE finished = 0;

-- The tree's leaves, 1,024 of them in a row, with the root of each such stretch. They outlive the requests.
CREATE TABLE draw_leaves (
    event_key INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    leaves BLOB NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (event_key, chunk)
) STRICT;

-- Who was drawn, by their place in line. Shown to nobody before the announcement.
CREATE TABLE draw_winners (
    line INTEGER NOT NULL PRIMARY KEY
) STRICT;
