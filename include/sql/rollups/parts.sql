-- Which units hold rows of these event hours, and how many.
SELECT toUnixTimestamp(toStartOfHour({time})) AS hour, toUnixTimestamp(_slice), toString(_cluster), count()
FROM {source}
WHERE hour IN {hours:Array(UInt32)}
    AND {time} >= toDateTime({first:UInt32}, 'UTC') AND {time} < toDateTime({last:UInt32}, 'UTC') + INTERVAL 1 HOUR
GROUP BY hour, _slice, _cluster
