-- Rejected rows of one slice by table, column and reason; items of arrays and keys of maps are one column.
SELECT
    target,
    replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place,
    reason,
    count() AS records
FROM sluice.rejected
WHERE slice = toDateTime({slice:UInt32}, 'UTC') AND target IN {targets:Array(String)} AND pipeline = {pipeline:String}
GROUP BY target, place, reason
ORDER BY records DESC, target, place, reason
LIMIT {most:UInt32}
