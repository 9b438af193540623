-- Rows in the target or the staging table, of the attempt's slices from any cluster: to look a pair of columns up
-- for every row would take five times as long as to count them.
SELECT toUnixTimestamp(_slice), _cluster, count()
FROM {table}
WHERE _slice IN (SELECT slice FROM {fence})
GROUP BY _slice, _cluster
