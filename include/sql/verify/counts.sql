-- What a table of traffic counts sums up to, by the events' type.
SELECT toUnixTimestamp(_slice), toString(_cluster), toString(type) AS kind, sum(count)
FROM {table}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY _slice, _cluster, kind
