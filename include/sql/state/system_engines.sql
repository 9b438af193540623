SELECT name, engine
FROM system.tables
WHERE database = 'sluice' AND name IN ('ledger', 'rejected', 'targets')
