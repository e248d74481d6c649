-- Partial indexes whose condition is a list of three: SQLite builds a table in memory to look the value up, for every row
-- that is written, whether or not the index wants it. Comparisons cost nearly nothing.

-- postgres: DROP INDEX integration.outbox_events_ordered;
-- sqlite: DROP INDEX outbox_events_ordered;
CREATE INDEX outbox_events_ordered ON integration.outbox_events (aggregate_id, sequence)
    WHERE status <> 'SENT' AND aggregate_type <> 'REQUEST' AND aggregate_type <> 'TRANSFER';

DROP INDEX event_reward_allocation_due;
DROP INDEX event_reward_allocation_open;
DROP INDEX event_reward_allocation_open_by_event;
CREATE INDEX event_reward_allocation_due ON event_reward_allocation (provider, next_retry_at)
    WHERE reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' AND next_retry_at IS NOT NULL;
CREATE INDEX event_reward_allocation_open ON event_reward_allocation (allocation_id)
    WHERE reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED';
CREATE INDEX event_reward_allocation_open_by_event ON event_reward_allocation (event_id, allocation_id)
    WHERE reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED';
