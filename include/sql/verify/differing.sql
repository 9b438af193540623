-- Records of one unit whose rows are not the same in both tables. No column's name begins as the aliases do.
SELECT {own}topic, {own}partition, {own}offset
FROM
(
    SELECT toString(_topic) AS {own}topic, toInt32(_partition) AS {own}partition,
        toInt64(_offset) AS {own}offset, cityHash64({row}) AS {own}hash, 1 AS {own}side
    FROM {table}
    WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String} AND ({kept})
    UNION ALL
    SELECT toString(_topic), toInt32(_partition), toInt64(_offset), cityHash64({row}), -1
    FROM {staged}
    WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String} AND ({kept})
)
GROUP BY {own}topic, {own}partition, {own}offset, {own}hash
HAVING sum({own}side) != 0
ORDER BY {own}topic, {own}partition, {own}offset
LIMIT 1 BY {own}topic, {own}partition, {own}offset
LIMIT 1000
