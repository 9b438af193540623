-- By unit the rows that stay in each table that views fill, by its digest; 0 where the views give none.
SELECT slice, cluster, CAST(groupArray((stamp, rows)), 'Map(String, UInt64)') AS rows
FROM
(
    SELECT slice, cluster, stamp, sum(rows) AS rows
    FROM
    (
        SELECT slice, cluster, arrayJoin(CAST([{stamps}], 'Array(String)')) AS stamp, toUInt64(0) AS rows
        FROM {fence}
        {each}
    )
    GROUP BY slice, cluster, stamp
)
GROUP BY slice, cluster
