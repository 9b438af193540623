-- Up to when a table has every hour since `lookback` ago, or since its first one.
WITH whole AS ({hours}), (
    SELECT greatest(
        min(hour), toUnixTimestamp(toStartOfInterval(now('UTC') - INTERVAL {back} SECOND, INTERVAL {length} SECOND))
    )
    FROM whole
) AS first
SELECT toDateTime(if(
    first IN whole,
    (SELECT min(hour + {length}) FROM whole WHERE hour >= first AND hour + {length} NOT IN whole),
    first
), 'UTC')
