-- A few rejected rows of some slices for each column and reason, with as much of value and payload as is shown.
SELECT
    cluster, topic, partition, offset, target, column, reason,
    if({hidden:Bool}, '', substring(value, 1, 200)),
    if({hidden:Bool}, '', substring(payload, 1, 2000))
FROM sluice.rejected
WHERE target IN {targets:Array(String)} AND pipeline = {pipeline:String} AND has({slices:Array(UInt32)}, toUnixTimestamp(slice))
ORDER BY target, column, reason, cluster, topic, partition, offset
LIMIT {each:UInt32} BY target, replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]'), reason
LIMIT {most:UInt32}
