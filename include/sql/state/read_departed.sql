-- What a pipeline has committed out of a lake into tables that its file no longer names: their units, rows and rejected rows.
-- Of each unit the newest ledger row counts, whoever wrote it. A table that was dropped, or recreated, holds none of them.
SELECT
    target,
    groupUniqArray((toUnixTimestamp(slice), cluster)),
    sum(newest.4),
    sum(newest.5)
FROM
(
    SELECT target, slice, cluster, argMax((state, pipeline, lake, rows, rejected_rows), (generation, attempt, state)) AS newest
    FROM sluice.ledger
    WHERE target NOT IN {named:Array(String)}
        AND (target, table_uuid) IN (SELECT concat(database, '.', name), uuid FROM system.tables)
    GROUP BY target, slice, cluster
)
WHERE newest.1 = 'committed' AND newest.2 = {pipeline:String} AND newest.3 = {lake:String}
GROUP BY target
HAVING sum(newest.4) + sum(newest.5) > 0
ORDER BY target
