-- Of each unit the staged misfits that sluice.rejected does not have: rows that are in the table until now.
SELECT
    toUnixTimestamp(slice),
    cluster,
    count(),
    arraySort(groupUniqArray(20)(column)),
    argMin((column, reason, substring(value, 1, 200)), (topic, partition, offset, row))
FROM {misfits}
WHERE (slice, cluster, topic, partition, offset, row) NOT IN
(
    SELECT slice, cluster, topic, partition, offset, row
    FROM sluice.rejected
    WHERE target = {target:String} AND (slice, cluster) IN (SELECT slice, cluster FROM {fence})
)
GROUP BY slice, cluster
