-- The event hours of which a range of slices holds rows.
SELECT DISTINCT toUnixTimestamp(toStartOfHour({time})) AS hour, toUnixTimestamp(_slice), toString(_cluster)
FROM {source}
WHERE _slice >= toDateTime({first:UInt32}, 'UTC') AND _slice <= toDateTime({last:UInt32}, 'UTC')
    AND hour IS NOT NULL
