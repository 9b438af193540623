-- Counts and sums of a table that a view fills, or of what the view's SELECT gives now.
SELECT toUnixTimestamp(_slice) AS slice, toString(_cluster) AS cluster, {exact} AS exact, {floats} AS floats
FROM {rows}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY slice, cluster
