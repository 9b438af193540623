SELECT pipeline, lake
FROM sluice.targets
WHERE target = {target:String}
ORDER BY at, pipeline, lake
LIMIT 1
