-- A few rejected rows of one slice for each column and reason, with as much of value and payload as a page shows.
SELECT
    cluster, topic, partition, offset, target, column, reason,
    if({hidden:Bool}, '', substring(value, 1, 200)),
    if({hidden:Bool}, '', substring(payload, 1, 2000))
FROM sluice.rejected
WHERE slice = toDateTime({slice:UInt32}, 'UTC') AND target IN {targets:Array(String)} AND pipeline = {pipeline:String}
ORDER BY target, column, reason, cluster, topic, partition, offset
LIMIT 3 BY target, replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]'), reason
LIMIT 60
