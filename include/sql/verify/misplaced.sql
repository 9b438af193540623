-- Rows that belong on another shard.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
WHERE NOT {own}
    AND _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY _slice, _cluster
