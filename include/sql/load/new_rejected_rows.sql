-- Of each unit the staged rejected rows that sluice.rejected does not have: rows that are in the table until now. Of one of them
-- its record, and nothing that is in it: keys of maps are left out.
WITH replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place
SELECT
    toUnixTimestamp(slice),
    cluster,
    count(),
    arraySort(groupUniqArray(20)(place)),
    argMin((place, reason, topic, partition, offset), (topic, partition, offset, row))
FROM {rejected_rows}
WHERE (slice, cluster, topic, partition, offset, row) NOT IN
(
    SELECT slice, cluster, topic, partition, offset, row
    FROM sluice.rejected
    WHERE target = {target:String} AND (slice, cluster) IN (SELECT slice, cluster FROM {fence})
)
GROUP BY slice, cluster
