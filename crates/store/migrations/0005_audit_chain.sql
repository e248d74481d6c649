-- Each line of the audit log holds the hash of itself and of the one before it. Lines from before this have none.
ALTER TABLE audit_log ADD COLUMN hash BLOB;
INSERT INTO counters (name, value) SELECT 'audit_log_unchained', value FROM counters WHERE name = 'audit_log';
