-- Keys that a unit has in a log, and of which the table of newest rows has none as new.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM (
    SELECT _slice, _cluster, {key}, max({version}) AS _wanted
    FROM {log}
    WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY _slice, _cluster, {key}
) AS of_log
LEFT JOIN (
    SELECT {key}, max(_version) AS _held
    FROM {table}
    WHERE ({key}) IN (
        SELECT {key}
        FROM {log}
        WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
    )
    GROUP BY {key}
) AS of_table USING ({key})
WHERE _held < _wanted
GROUP BY _slice, _cluster
