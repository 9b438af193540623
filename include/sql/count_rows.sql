-- Rows of the attempt's units in the target or the staging table.
SELECT toUnixTimestamp(_slice), _cluster, count()
FROM {table}
WHERE (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
GROUP BY _slice, _cluster
