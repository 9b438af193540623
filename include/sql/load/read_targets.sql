-- Which of these tables some pipeline loads.
SELECT DISTINCT target, pipeline
FROM sluice.targets
WHERE target IN {tables:Array(String)}
ORDER BY target, pipeline
