-- Rejected rows of a target by unit and type, and of each the column that rejects most: `items[].price`, whatever the item's
-- number.
SELECT toUnixTimestamp(slice), toString(cluster), toString(type) AS name, sum(rows), argMax(place, rows), max(rows)
FROM (
    SELECT
        slice,
        cluster,
        type,
        replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place,
        count() AS rows
    FROM sluice.rejected
    WHERE target = {target:String}
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY slice, cluster, type, place
)
GROUP BY slice, cluster, name
