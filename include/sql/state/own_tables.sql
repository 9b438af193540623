-- Sluice's own tables; `current`: whether each has the column that its first version had not.
SELECT
    name,
    engine,
    comment,
    name IN (
        SELECT table
        FROM system.columns
        WHERE database = 'sluice' AND (table, name) IN (('ledger', 'nulls'), ('targets', 'lease'), ('rejected', 'pipeline'))
    ) AS current
FROM system.tables
WHERE database = 'sluice' AND name IN ('ledger', 'rejected', 'targets')
