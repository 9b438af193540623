-- The first claim's lease: whatever the shards are called later, attempts at one table on one server meet there.
SELECT lease
FROM sluice.targets
WHERE target = {target:String}
ORDER BY at, pipeline, lake
LIMIT 1
