-- Rows of units in a table of newest rows that its log does not have.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
    AND (_slice, _cluster, {key}, _version) NOT IN (
        SELECT _slice, _cluster, {key}, {version}
        FROM {log}
        WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
    )
GROUP BY _slice, _cluster
