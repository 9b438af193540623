-- How many rows a view's table holds of a range of slices.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY _slice, _cluster
