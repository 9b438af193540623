-- The hours that a table has whole: every cluster that had begun by then is committed.
SELECT toUnixTimestamp(slice) AS hour
FROM (
    SELECT slice, cluster, argMax(state, (generation, attempt, state)) AS newest
    FROM sluice.ledger
    WHERE target = {target}
        AND table_uuid IN (SELECT uuid FROM system.tables WHERE concat(database, '.', name) = {target})
    GROUP BY slice, cluster
)
WHERE newest = 'committed' GROUP BY slice
HAVING arrayAll((name, begin) -> begin > hour OR has(groupArray(cluster), name), [{clusters}], [{begins}])
