-- What a target really holds of a range of slices, by type where the table knows it.
SELECT toUnixTimestamp(_slice), toString(_cluster), {type} AS type, count()
FROM {table}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY _slice, _cluster, type
