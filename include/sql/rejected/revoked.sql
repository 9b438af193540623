-- Units of which a commit was revoked and not renewed: a load that was stopped has taken their rows out.
SELECT DISTINCT toUnixTimestamp(slice), cluster
FROM
(
    SELECT target, slice, cluster, argMax((state, pipeline, lake), (generation, attempt, state)) AS newest
    FROM sluice.ledger
    WHERE target IN {targets:Array(String)}
        AND (target, table_uuid) IN (
            SELECT concat(database, '.', name), uuid
            FROM system.tables
            WHERE concat(database, '.', name) IN {targets:Array(String)}
        )
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY target, slice, cluster
)
WHERE newest.1 = 'revoked' AND newest.2 = {pipeline:String} AND newest.3 = {lake:String}
