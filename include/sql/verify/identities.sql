-- Rows and different records (or rows of records) of each partition. A slice's offsets lie close together, so
-- that a bitmap of them takes about a bit each, whatever the table's size.
SELECT
    toUnixTimestamp(_slice),
    toString(_cluster),
    toString(_topic) AS topic,
    toInt32(_partition) AS partition,
    count(),
    groupBitmap({identity}),
    min(_offset),
    max(_offset)
FROM {table}
WHERE _slice >= toDateTime({start:UInt32}, 'UTC') AND _slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY _slice, _cluster, topic, partition
