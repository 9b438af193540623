-- How often each record of one unit, or each row of a record, is there.
SELECT
    toString(_topic) AS topic,
    toInt32(_partition) AS partition,
    toInt64(_offset) AS offset,
    {row} AS row,
    count()
FROM {table}
WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String}
GROUP BY topic, partition, offset, row
