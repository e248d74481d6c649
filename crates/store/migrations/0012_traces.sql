-- In which trace a message and an allocation belong, as a `traceparent`; nothing where nobody follows it.
ALTER TABLE integration.outbox_events ADD COLUMN trace TEXT;
ALTER TABLE event_reward_allocation ADD COLUMN trace TEXT;
