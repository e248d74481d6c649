//! What must hold in the database after whatever was done to the servers.

use guerdon_harness::TestDatabase;

/// No half of a change is there: each event has its rewards and its line in the audit log, and the log has no gaps.
pub(crate) fn check(database: &TestDatabase) {
    let mut sql = database.sql();
    let events = sql.number("SELECT COUNT(*) FROM events");
    let halves = sql.texts(
        "SELECT event_id FROM events e WHERE (SELECT COUNT(*) FROM event_rewards r WHERE r.event_id = e.event_id) <> 2
         OR (SELECT COUNT(*) FROM audit_log a WHERE a.target_type = 'EVENT' AND a.target_id = e.event_id
             AND a.action = 'EVENT_CREATED') <> 1
         OR (SELECT COUNT(*) FROM audit_log a WHERE a.target_type = 'EVENT' AND a.target_id = e.event_id) <> e.version",
    );
    assert!(halves.is_empty(), "half a change: {halves:?}");
    let created = sql.number("SELECT COUNT(*) FROM audit_log WHERE action = 'EVENT_CREATED'");
    assert_eq!(created, events, "a line without its event");
    let orphans = sql.number(
        "SELECT COUNT(*) FROM event_rewards r WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.event_id = r.event_id)",
    );
    assert_eq!(orphans, 0, "rewards without their event");
    let lines = sql.number("SELECT COUNT(*) FROM audit_log");
    assert_eq!(
        sql.number("SELECT COALESCE(MAX(sequence), 0) FROM audit_log"),
        lines,
        "a gap in the audit log"
    );
    assert_eq!(sql.number("SELECT value FROM counters WHERE name = 'audit_log'"), lines);
}

/// Lines without gaps or repeats, one place for each user, the first ones winning, and the counts that are kept true.
pub(crate) fn check_lines(database: &TestDatabase) {
    let mut sql = database.sql();
    for event_key in sql.texts("SELECT CAST(event_key AS TEXT) FROM event_lines") {
        let of = |condition: &str| {
            format!("SELECT COUNT(*) FROM requests WHERE line >> 40 = {event_key} {condition}")
        };
        let kept = |column: &str| format!("SELECT {column} FROM event_lines WHERE event_key = {event_key}");
        let people = sql.number(&of(""));
        assert_eq!(sql.number(&kept("last_position")), people, "a gap in the line");
        let newest = format!(
            "SELECT COALESCE(MAX(line & 1099511627775), 0) FROM requests WHERE line >> 40 = {event_key}"
        );
        assert_eq!(sql.number(&newest), people);
        let users = format!("SELECT COUNT(DISTINCT user_id) FROM requests WHERE line >> 40 = {event_key}");
        assert_eq!(sql.number(&users), people, "somebody stands twice in line");
        let winners = sql.number(&of("AND result = 1"));
        assert_eq!(sql.number(&kept("capacity_total - capacity_remaining")), winners);
        let first = of(&format!("AND result = 1 AND (line & 1099511627775) <= {winners}"));
        assert_eq!(sql.number(&first), winners, "the winners are the first");
        let decided = sql.number(&of("AND result <> 0"));
        assert_eq!(sql.number(&kept("decided_position")), decided);
        assert_eq!(
            sql.number("SELECT COUNT(*) FROM requests WHERE (result = 0) <> (finished_at IS NULL)"),
            0
        );
    }
    let outbox =
        if database.engine == guerdon_harness::TestEngine::Sqlite { "integration_" } else { "integration." };
    let told = format!("SELECT COUNT(*) FROM {outbox}outbox_events WHERE event_type = 'REQUEST_DECIDED'");
    let decided = sql.number("SELECT COUNT(*) FROM requests WHERE result <> 0");
    assert_eq!(sql.number(&told), decided, "each decision was told once");
    let short = sql.number(
        "SELECT COUNT(*) FROM event_rewards r WHERE r.total_stock IS NOT NULL AND r.remaining_stock + r.quantity * (
            SELECT COUNT(*) FROM event_reward_allocation a WHERE a.event_id = r.event_id AND a.reward_id = r.reward_id
            AND a.reward_status <> 'CANCELLED') <> r.total_stock",
    );
    assert_eq!(short, 0, "stock and allocations add up");
}

/// What holds for lotteries once they are settled: the counts, the news and the rewards, whoever won.
pub(crate) fn check_lottery(database: &TestDatabase) {
    let mut sql = database.sql();
    let wrong = sql.number(
        "SELECT COUNT(*) FROM event_lines l WHERE capacity_total - capacity_remaining <> (
            SELECT COUNT(*) FROM requests r WHERE r.line >> 40 = l.event_key AND r.result = 1)",
    );
    assert_eq!(wrong, 0, "the counts are those of the rows");
}
