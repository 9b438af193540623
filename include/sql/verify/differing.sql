-- Records of one unit whose rows are not the same in both tables. The aliases are no columns of anybody's table.
SELECT sluice_topic, sluice_partition, sluice_offset
FROM
(
    SELECT toString(_topic) AS sluice_topic, toInt32(_partition) AS sluice_partition,
        toInt64(_offset) AS sluice_offset, cityHash64({row}) AS sluice_hash, 1 AS sluice_side
    FROM {table}
    WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String} AND ({kept})
    UNION ALL
    SELECT toString(_topic), toInt32(_partition), toInt64(_offset), cityHash64({row}), -1
    FROM {staged}
    WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String} AND ({kept})
)
GROUP BY sluice_topic, sluice_partition, sluice_offset, sluice_hash
HAVING sum(sluice_side) != 0
ORDER BY sluice_topic, sluice_partition, sluice_offset
LIMIT 1 BY sluice_topic, sluice_partition, sluice_offset
LIMIT 1000
