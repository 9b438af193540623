-- Rows, and rejected rows, of each unit that a table has.
SELECT start, unit_cluster, sum(rows), sum(rejected)
FROM
(
    SELECT toUnixTimestamp(_slice) AS start, toString(_cluster) AS unit_cluster, count() AS rows, 0 AS rejected
    FROM {table}
    GROUP BY start, unit_cluster
    UNION ALL
    SELECT toUnixTimestamp(slice), toString(cluster), 0, count()
    FROM sluice.rejected
    WHERE target = {target:String}
    GROUP BY slice, cluster
)
GROUP BY start, unit_cluster
