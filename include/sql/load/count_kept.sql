-- How many rows, and how many records, a table has of each unit of a range of slices.
SELECT toUnixTimestamp(_slice), toString(_cluster), count(), uniqExact({id})
FROM {target}
WHERE _slice >= toDateTime({first:UInt32}, 'UTC') AND _slice <= toDateTime({last:UInt32}, 'UTC')
GROUP BY _slice, _cluster
