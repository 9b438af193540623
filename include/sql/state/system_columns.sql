-- Which of Sluice's own tables have the columns that their first versions had not.
SELECT table
FROM system.columns
WHERE database = 'sluice' AND (table, name) IN (('ledger', 'views'), ('targets', 'lease'), ('rejected', 'row'))
