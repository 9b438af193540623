-- Rejected rows of a range of slices by unit, table, column and reason; items of arrays and keys of maps are one column. Of an
-- empty parameter every value counts.
SELECT
    toUnixTimestamp(slice),
    cluster,
    target,
    replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place,
    reason,
    count()
FROM sluice.rejected
WHERE target IN {targets:Array(String)} AND pipeline = {pipeline:String}
    AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    AND ({reason:String} = '' OR positionCaseInsensitiveUTF8(reason, {reason:String}) > 0)
    AND ({column:String} = '' OR place = {column:String} OR startsWith(place, concat({column:String}, '.'))
        OR startsWith(place, concat({column:String}, '[')))
    AND ({type:String} = '' OR type = {type:String})
GROUP BY slice, cluster, target, place, reason
ORDER BY slice, cluster, target, place, reason
LIMIT {most:UInt64}
