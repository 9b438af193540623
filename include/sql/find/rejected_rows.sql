-- Which columns of one table took no value of a record's rows, and why; a bounded number of them. Keys of maps, which are
-- the event's own text, are left out.
SELECT DISTINCT
    replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place,
    reason,
    row
FROM sluice.rejected
WHERE target IN {targets:Array(String)} AND pipeline = {pipeline:String} AND slice = toDateTime({slice:UInt32}, 'UTC') AND cluster = {cluster:String}
    AND topic = {topic:String} AND partition = {partition:Int32} AND offset = {offset:Int64}
ORDER BY row, place, reason
LIMIT 10000
