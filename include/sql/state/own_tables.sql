-- Sluice's own tables.
SELECT name, engine, comment
FROM system.tables
WHERE database = 'sluice' AND name IN ('ledger', 'rejected', 'targets')
