-- Counts and sums of a table that a view fills, or of what the view's SELECT gives now. No alias: it would hide a
-- column of that name inside the sums.
SELECT toUnixTimestamp(_slice), toString(_cluster), {exact}, {floats}
FROM {rows}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY toUnixTimestamp(_slice), toString(_cluster)
