-- How many rows a source has now of each unit of a range of slices.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {source}
WHERE _slice >= toDateTime({first:UInt32}, 'UTC') AND _slice <= toDateTime({last:UInt32}, 'UTC')
GROUP BY _slice, _cluster
