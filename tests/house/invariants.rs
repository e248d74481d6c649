//! What must hold in the database after whatever was done to the servers.

use guerdon_harness::TestDatabase;

/// No half of a change is there: each event has its rewards and its line in the audit log, and the log has no gaps.
pub(crate) fn check(database: &TestDatabase) {
    check_lines(database);
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

/// Everything that the product's own audit checks, by its own command; and the core of it by plain SQL, which shares
/// nothing with the audit.
pub(crate) fn check_lines(database: &TestDatabase) {
    crate::audit::assert_clean(database);
    let wrong = database.sql().texts(
        "SELECT l.event_id FROM event_lines l JOIN events e ON e.event_id = l.event_id WHERE l.swept_position = 0 AND (
            (SELECT COUNT(*) FROM requests r WHERE r.line >> 40 = l.event_key) <> l.last_position
            OR (SELECT COUNT(DISTINCT r.user_id) FROM requests r WHERE r.line >> 40 = l.event_key) <> l.last_position
            OR (SELECT COUNT(*) FROM requests r WHERE r.line >> 40 = l.event_key AND r.result = 1) > l.capacity_total
            OR EXISTS (SELECT 1 FROM requests r WHERE r.line >> 40 = l.event_key AND e.type = 'FIRST_COME'
                AND (r.result = 1) <> ((r.line & 1099511627775) <= l.capacity_total)))",
    );
    assert!(wrong.is_empty(), "by plain SQL these lines are wrong: {wrong:?}");
}
