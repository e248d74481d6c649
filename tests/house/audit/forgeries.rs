//! Every way in which what is stored was tampered with, and the check that has to notice.

/// Changes what is stored behind the product's back; the check that has to notice, and a word that it has to say.
pub(super) struct Forgery {
    pub(super) what: &'static str,
    pub(super) sql: &'static [&'static str],
    pub(super) check: &'static str,
    pub(super) names: &'static str,
}

pub(super) const DROP: &str = "(SELECT event_key FROM event_lines WHERE event_id = 'drop_1')";

/// Who has which coupons is an index of its own there, and its tail.
pub(super) const ON_SQLITE: &[Forgery] = &[Forgery {
    what: "a coupon that is in nobody's index",
    sql: &[
        "DELETE FROM user_coupon_holders WHERE user_id = 'u-2'",
        "DELETE FROM user_coupon_tail WHERE user_id = 'u-2'",
    ],
    check: "user_coupons",
    names: "for u-2: its user would not find it",
}];

pub(super) const FORGERIES: &[Forgery] = &[
    Forgery {
        what: "a winner is deleted",
        sql: &["DELETE FROM requests WHERE line = ({DROP} << 40) | 3"],
        check: "line_positions",
        names: "after position 2 comes 4",
    },
    Forgery {
        what: "the end of the line is cut off",
        sql: &["DELETE FROM requests WHERE line = ({DROP} << 40) | 20"],
        check: "line_positions",
        names: "positions 20 to 20 are missing",
    },
    Forgery {
        what: "somebody stands twice",
        sql: &["{UNIQUE}", "UPDATE requests SET user_id = 'u-1' WHERE line = ({DROP} << 40) | 15"],
        check: "one_request_per_user",
        names: "u-1",
    },
    Forgery {
        what: "a later one wins in place of an earlier one",
        sql: &[
            "UPDATE requests SET result = 2 WHERE line = ({DROP} << 40) | 5",
            "UPDATE requests SET result = 1 WHERE line = ({DROP} << 40) | 6",
        ],
        check: "winners",
        names: "position 6 of drop_1",
    },
    Forgery {
        what: "a counter of places",
        sql: &["UPDATE event_lines SET capacity_remaining = 1 WHERE event_id = 'drop_1'"],
        check: "capacity",
        names: "5 won, 1 of 5 remain",
    },
    Forgery {
        what: "a counter of results",
        sql: &["UPDATE event_lines SET tally = '{\"results\":{\"SUCCESS\":5,\"REJECTED_CAPACITY\":14}}'
            WHERE event_id = 'drop_1'"],
        check: "line_counts",
        names: "14 REJECTED_CAPACITY are counted, 15 are there",
    },
    Forgery {
        what: "a message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE aggregate_id = (SELECT MIN(aggregate_id) FROM {OUTBOX}
            WHERE aggregate_type = 'REQUEST')"],
        check: "request_messages",
        names: "has no message",
    },
    Forgery {
        what: "a message that nothing caused",
        sql: &["INSERT INTO {OUTBOX} (event_id, channel, sequence, aggregate_type, aggregate_id, event_type, payload,
            status, created_at, attempts) VALUES ({BLOB}, 'broker', 1, 'REQUEST', 'x', 'REQUEST_DECIDED', '{}',
            'NEW', 1, 0)"],
        check: "request_messages",
        names: "nothing caused",
    },
    Forgery {
        what: "an event's message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE event_type = 'EVENT_CLOSED' AND aggregate_id = 'drop_1'"],
        check: "event_messages",
        names: "drop_1: 0 messages of EVENT_CLOSED",
    },
    Forgery {
        what: "a winner's reward is missing",
        sql: &["DELETE FROM event_reward_allocation WHERE event_id = 'drop_1' AND reward_id = 'points'
            AND member_id = 'u-2'"],
        check: "allocations",
        names: "has won and has no points",
    },
    Forgery {
        what: "a reward for somebody who has not won",
        sql: &["UPDATE event_reward_allocation SET member_id = 'u-19' WHERE event_id = 'drop_1'
            AND reward_id = 'points' AND member_id = 'u-2'"],
        check: "allocations",
        names: "has won and has no points",
    },
    Forgery {
        what: "a reward under another key",
        sql: &["UPDATE event_reward_allocation SET idempotency_key = 'req-drop_1-u-2-gem'
            WHERE idempotency_key = 'req-drop_1-u-2-points'"],
        check: "allocation_keys",
        names: "has the key req-drop_1-u-2-gem",
    },
    Forgery {
        what: "a check-in's reward under another's key",
        sql: &["UPDATE event_reward_allocation SET idempotency_key = 'att-daily-u-99-2026-01-01-DAILY'
            WHERE event_id = 'daily' AND member_id = 'u-2' AND reward_id = 'points'"],
        check: "allocation_keys",
        names: "has the key att-daily-u-99-2026-01-01-DAILY",
    },
    Forgery {
        what: "a play is gone",
        sql: &["DELETE FROM event_entry WHERE event_id = 'wheel' AND member_id = 'u-3' AND number = 1"],
        check: "entries",
        names: "does not follow from the entries before it",
    },
    Forgery {
        what: "a check-in that counts for more",
        sql: &["UPDATE event_entry SET streak = 7 WHERE event_id = 'daily' AND member_id = 'u-3'"],
        check: "entries",
        names: "of u-3 in daily: does not follow",
    },
    Forgery {
        what: "somebody stands where they are not",
        sql: &["UPDATE event_entrants SET run = 5 WHERE event_id = 'daily' AND member_id = 'u-4'"],
        check: "entries",
        names: "u-4 in daily has 1 entries",
    },
    Forgery {
        what: "what a play gave is gone",
        sql: &["DELETE FROM event_reward_allocation WHERE event_id = 'wheel' AND member_id = 'u-5'"],
        check: "entry_rewards",
        names: "was won and not given",
    },
    Forgery {
        what: "a play by odds that were not in force",
        sql: &["UPDATE event_entry SET odds_version = 2 WHERE event_id = 'wheel' AND member_id = 'u-6'"],
        check: "odds",
        names: "was not drawn by the odds in force",
    },
    Forgery {
        what: "a prize that is withheld",
        sql: &["UPDATE event_entry SET reward_id = NULL WHERE event_id = 'wheel' AND reward_id = 'points' AND number = 1"],
        check: "odds",
        names: "was not drawn by the odds in force",
    },
    Forgery {
        what: "luck that cannot be",
        sql: &["UPDATE event_entry SET drawn = 1, reward_id = 'gem' WHERE event_id = 'wheel'"],
        check: "odds",
        names: "wheel version 1: chi-square 60.0 with 1 degrees of freedom over 60 plays",
    },
    Forgery {
        what: "a reward that no transfer paid out",
        sql: &["DELETE FROM {core.transfer} WHERE kind = 'REWARD' AND amount = 1000"],
        check: "deliveries",
        names: "was paid out by no transfer",
    },
    Forgery {
        what: "a transfer that pays out what was not won",
        sql: &["UPDATE event_reward_allocation SET reward_status = 'FAILED'
            WHERE event_id = 'daily' AND member_id = 'u-7' AND reward_id = 'points'"],
        check: "deliveries",
        names: "pays out nothing that was won",
    },
    Forgery {
        what: "the stock of a game",
        sql: &["UPDATE event_rewards SET remaining_stock = 100 WHERE event_id = 'wheel' AND reward_id = 'gem'"],
        check: "stock",
        names: "wheel: 100 of gem remain",
    },
    Forgery {
        what: "stock",
        sql: &["UPDATE event_rewards SET remaining_stock = 5 WHERE event_id = 'tombola'"],
        check: "stock",
        names: "5 of gift remain, 3 of 9 were given",
    },
    Forgery {
        what: "a line of the log is forged",
        sql: &["UPDATE audit_log SET actor = 'somebody_else' WHERE sequence = 2"],
        check: "audit_log",
        names: "line 2 is not what was written",
    },
    Forgery {
        what: "a line of the log is taken out",
        sql: &["DELETE FROM audit_log WHERE sequence = 3"],
        check: "audit_log",
        names: "lines 3 to 3 are missing",
    },
    Forgery {
        what: "the end of the log is cut off",
        sql: &["DELETE FROM audit_log WHERE sequence = (SELECT MAX(sequence) FROM audit_log)"],
        check: "audit_log",
        names: "are missing",
    },
    Forgery {
        what: "an entry of the lottery is another's",
        sql: &["UPDATE requests SET user_id = 'stranger' WHERE user_id = 'u-4'
            AND line >> 40 = (SELECT event_key FROM draws WHERE event_id = 'tombola')"],
        check: "draws",
        names: "the leaf of position",
    },
    Forgery {
        what: "the lottery's seed is exchanged",
        sql: &["UPDATE draws SET seed = salt_key"],
        check: "draws",
        names: "the commitment is not that of the seed",
    },
    Forgery {
        what: "somebody else was drawn",
        sql: &["UPDATE draw_winners SET line = (SELECT MIN(line) FROM requests WHERE result = 4)
            WHERE line = (SELECT MIN(line) FROM draw_winners)"],
        check: "draws",
        names: "was not drawn",
    },
    Forgery {
        what: "a leaf is another",
        sql: &["UPDATE draw_leaves SET leaves = root"],
        check: "draws",
        names: "the leaves of chunk 0 are others",
    },
    Forgery {
        what: "a draw is gone",
        sql: &["DELETE FROM draws WHERE event_id = 'later'"],
        check: "draws",
        names: "later: a lottery without its draw",
    },
    Forgery {
        what: "somebody won before the announcement",
        sql: &["UPDATE requests SET result = 1, started_at = 1, finished_at = 1
            WHERE line = ((SELECT event_key FROM draws WHERE event_id = 'later') << 40) | 2"],
        check: "winners",
        names: "is decided before the announcement",
    },
    Forgery {
        what: "a row that says two things",
        sql: &["UPDATE requests SET finished_at = NULL WHERE line = ({DROP} << 40) | 2"],
        check: "readable",
        names: "its times do not fit its result",
    },
    Forgery {
        what: "a change of an event that nobody made",
        sql: &["UPDATE events SET version = version + 1 WHERE event_id = 'later'"],
        check: "event_lines_in_log",
        names: "later has changed",
    },
    Forgery {
        what: "a message that nobody sends on",
        sql: &["UPDATE {OUTBOX} SET status = 'SENDING', deadline = 1000
            WHERE event_type = 'EVENT_OPENED' AND aggregate_id = 'drop_1'"],
        check: "leases",
        names: "past its lease",
    },
    Forgery {
        what: "money from nowhere",
        sql: &["UPDATE {core.account} SET balance = balance + 7 WHERE owner_id = 'bob'"],
        check: "money",
        names: "all accounts in KRW hold 7 together",
    },
    Forgery {
        what: "a balance that its entries do not come to",
        sql: &[
            "UPDATE {core.account} SET balance = balance + 7 WHERE owner_id = 'bob'",
            "UPDATE {core.account} SET balance = balance - 7 WHERE owner_id = 'ann'",
        ],
        check: "account_entries",
        names: "account 3 holds 52, and its entries come to 45",
    },
    Forgery {
        what: "an entry is gone",
        sql: &["DELETE FROM {core.ledger_entry} WHERE account_id = 3 AND number = 2"],
        check: "account_entries",
        names: "account 3 lacks entry 2",
    },
    Forgery {
        what: "an entry with another amount",
        sql: &["UPDATE {core.ledger_entry} SET amount = 31 WHERE account_id = 3 AND number = 1"],
        check: "account_entries",
        names: "entry 1 of account 3",
    },
    Forgery {
        what: "an account that once was below zero",
        sql: &["UPDATE {core.ledger_entry} SET balance_after = -1 WHERE account_id = 3 AND number = 1"],
        check: "members",
        names: "entry 1 of account 3",
    },
    Forgery {
        what: "two accounts as they were before a transfer",
        sql: &[
            "UPDATE {core.account} SET balance = 70, entries = 2 WHERE account_id = 1",
            "UPDATE {core.account} SET balance = 30, entries = 1 WHERE account_id = 3",
        ],
        check: "account_entries",
        names: "account 1 has 2 entries, and the ledger has entry 3",
    },
    Forgery {
        what: "a transfer's two entries are both gone",
        sql: &["DELETE FROM {core.ledger_entry} WHERE amount = 20"],
        check: "transfers",
        names: "has 0 entries",
    },
    Forgery {
        what: "an entry that is not its transfer's",
        sql: &["UPDATE {core.ledger_entry} SET side = 'CREDIT' WHERE account_id = 1 AND amount = 20"],
        check: "transfers",
        names: "has 2 entries, 1 of them sound",
    },
    Forgery {
        what: "a refund that nobody made",
        sql: &["UPDATE {core.transfer} SET refunded = 12 WHERE amount = 30"],
        check: "transfers",
        names: "12 was given back, by transfers 5",
    },
    Forgery {
        what: "a transfer is gone",
        sql: &["DELETE FROM {core.transfer} WHERE amount = 20"],
        check: "transfer_keys",
        names: "is SUCCEEDED, with 0 transfers",
    },
    Forgery {
        what: "a transfer under a key that failed",
        sql: &["UPDATE {integration.idempotency_key} SET status = 'FAILED'
            WHERE idempotency_key = (SELECT idempotency_key FROM {core.transfer} WHERE amount = 20)"],
        check: "transfer_keys",
        names: "is FAILED, with 1 transfers",
    },
    Forgery {
        what: "a transfer without a key",
        sql: &["DELETE FROM {integration.idempotency_key} WHERE idempotency_key = 'first'"],
        check: "transfer_keys",
        names: "was made under a key that does not name it",
    },
    Forgery {
        what: "a transfer's message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE event_type = 'TRANSFER_REFUNDED'"],
        check: "transfer_messages",
        names: "has no message",
    },
    Forgery {
        what: "a message about a transfer that was never made",
        sql: &["INSERT INTO {OUTBOX} (event_id, channel, sequence, aggregate_type, aggregate_id, event_type, payload,
            status, created_at, attempts) VALUES ({BLOB}, 'broker', 1, 'TRANSFER', 'x', 'TRANSFER_COMPLETED', '{}',
            'NEW', 1, 0)"],
        check: "transfer_messages",
        names: "which was never made",
    },
    Forgery {
        what: "a transfer that nobody ends",
        sql: &["UPDATE {integration.idempotency_key} SET status = 'IN_PROGRESS', deadline = 1000
            WHERE status = 'FAILED'"],
        check: "leases",
        names: "is past its lease",
    },
    Forgery {
        what: "a claim says less than it was granted",
        sql: &["UPDATE user_reward_requests SET progress = REPLACE(progress, '\"grant\":\"SUCCESS\"', '\"grant\":\"PENDING\"')
            WHERE request_id = 'gift-0001'"],
        check: "claims",
        names: "gift-0001 (SUCCESS_ALL_GRANTED): what it was granted does not fit",
    },
    Forgery {
        what: "a claim came to its end by a way that there is not",
        sql: &["UPDATE user_reward_requests SET progress = REPLACE(progress, '\"to\":\"INVENTORY_ALLOCATED\"',
            '\"to\":\"COMPENSATED_REWARD\"') WHERE request_id = 'gift-0002'"],
        check: "claims",
        names: "gift-0002",
    },
    Forgery {
        what: "a claim's reward has another claim's key",
        sql: &["UPDATE user_reward_requests SET progress = REPLACE(progress, 'claim-gift-0003-gem', 'claim-gift-0004-gem')
            WHERE request_id = 'gift-0003'"],
        check: "claims",
        names: "gift-0003",
    },
    Forgery {
        what: "what a claim took from the stock is forgotten",
        sql: &["DELETE FROM claim_stock WHERE claim_id =
            (SELECT claim_id FROM user_reward_requests WHERE request_id = 'gift-0001')"],
        check: "stock",
        names: "gift-0001 (SUCCESS_ALL_GRANTED): it says that it holds 1, and holds 0",
    },
    Forgery {
        what: "the stock of an event that is claimed",
        sql: &["UPDATE event_rewards SET remaining_stock = remaining_stock + 1
            WHERE event_id = 'gift' AND reward_id = 'gem'"],
        check: "stock",
        names: "gift: 96 of gem remain, 5 of 100 were taken",
    },
    Forgery {
        what: "what was taken back from a claim is paid out again",
        sql: &["UPDATE {core.transfer} SET refunded = 0 WHERE kind = 'REWARD' AND refunded > 0"],
        check: "grants",
        names: "points of vain-0001 is REVOKED, and the wallet says otherwise",
    },
    Forgery {
        what: "a compensation without its log",
        sql: &["UPDATE user_reward_requests SET progress = REPLACE(progress, '\"phase\":\"DONE\"', '\"phase\":\"STARTED\"')
            WHERE request_id = 'vain-0002'"],
        check: "compensations",
        names: "vain-0002",
    },
    Forgery {
        what: "a claim that nobody takes up",
        sql: &["UPDATE user_reward_requests SET waits_for = 'house', next_at = 1, expires_at = 1
            WHERE request_id = 'vain-0000'"],
        check: "leases",
        names: "vain-0000",
    },
    Forgery {
        what: "a coupon's count",
        sql: &["UPDATE coupon_count SET issued = issued - 1 WHERE coupon_id = 'ten'"],
        check: "coupons",
        names: "ten: 3 are counted as issued, 4 are held",
    },
    Forgery {
        what: "more of a coupon than there are",
        sql: &["UPDATE coupon SET total_quantity = 3 WHERE coupon_id = 'ten'"],
        check: "coupons",
        names: "ten: 4 of 3 are issued",
    },
    Forgery {
        what: "somebody has more than one can have",
        sql: &["{COUPON_KEYS}", "UPDATE user_coupon SET user_id = 'u-0', slot = 2 WHERE user_id = 'u-2'"],
        check: "user_coupons",
        names: "for u-0: it is more than its user can have",
    },
    Forgery {
        what: "a coupon that there is not",
        sql: &["DELETE FROM coupon WHERE coupon_id = 'ten'"],
        check: "user_coupons",
        names: "there is no such coupon",
    },
    Forgery {
        what: "a key that was used twice",
        sql: &["{COUPON_KEYS}", "UPDATE user_coupon SET user_id = 'u-0', slot = 2 WHERE user_id = 'u-2'"],
        check: "user_coupons",
        names: "its key was used for another as well",
    },
    Forgery {
        what: "two of a coupon in one place",
        sql: &["{COUPON_PLACES}", "UPDATE user_coupon SET user_id = 'u-0' WHERE user_id = 'u-2'"],
        check: "user_coupons",
        names: "for u-0: another has its place",
    },
    Forgery {
        what: "nobody was told of a coupon",
        sql: &["DELETE FROM {OUTBOX} WHERE event_type = 'COUPON_CONFIRMED'"],
        check: "coupon_messages",
        names: "nobody was told what became of it",
    },
    Forgery {
        what: "a coupon that waits for nobody",
        sql: &["UPDATE user_coupon SET status = 'PENDING', slot = NULL, result_code = NULL, decided_at = NULL,
            requested_at = 1 WHERE user_id = 'u-3'"],
        check: "coupon_messages",
        names: "is pending, and nobody was asked",
    },
    Forgery {
        what: "a coupon that nobody decides about",
        sql: &["UPDATE user_coupon SET status = 'PENDING', slot = NULL, result_code = NULL, decided_at = NULL,
            requested_at = 1 WHERE user_id = 'u-3'"],
        check: "leases",
        names: "is pending, and nobody has decided about it",
    },
];
