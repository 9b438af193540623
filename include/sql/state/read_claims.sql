-- Whose each of these tables is: of its claims the first counts.
SELECT target, pipeline, lake
FROM sluice.targets
WHERE target IN {targets:Array(String)}
ORDER BY target, at, pipeline, lake
LIMIT 1 BY target
