-- Tables that the pipeline has loaded out of this lake and no longer names, that are still there: how many rows of the
-- slices they hold by the ledger. `until` is the end of the last slice.
SELECT target, sum(rows)
FROM
(
    SELECT
        target,
        argMax(rows + rejected_rows, (generation, attempt, state)) AS rows,
        argMax(state, (generation, attempt, state)) AS newest
    FROM sluice.ledger
    WHERE pipeline = {pipeline:String}
        AND lake = {lake:String}
        AND target NOT IN {targets:Array(String)}
        AND toUnixTimestamp(slice) >= {start:Int64}
        AND toUnixTimestamp(slice) < {until:Int64}
        AND table_uuid IN (SELECT uuid FROM system.tables)
    GROUP BY target, table_uuid, slice, cluster
)
WHERE newest = 'committed' AND rows > 0
GROUP BY target
ORDER BY target
