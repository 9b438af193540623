-- The rows, and the rejected rows, that each of these tables has by the ledger: those of each unit's newest row.
SELECT toString(target) AS name, sum(newest.2), sum(newest.3)
FROM
(
    SELECT target, slice, cluster, argMax((state, rows, rejected_rows), (generation, attempt, state)) AS newest
    FROM sluice.ledger
    WHERE target IN {targets:Array(String)}
        AND (target, table_uuid) IN (
            SELECT concat(database, '.', name), uuid
            FROM system.tables
            WHERE database IN {databases:Array(String)} AND concat(database, '.', name) IN {targets:Array(String)}
        )
    GROUP BY target, slice, cluster
)
WHERE newest.1 = 'committed'
GROUP BY name
