-- When each unit of a table was committed, and with which views, by its newest row. The rows of a rollup's unit that is
-- frozen are of an earlier commit, before which its views may have been others.
SELECT
    toUnixTimestamp(slice),
    toString(cluster),
    toUnixTimestamp(argMax(at, (generation, attempt, state))),
    argMax({views}, (generation, attempt, state))
FROM sluice.ledger
WHERE target = {target:String} AND table_uuid = {uuid:UUID}
GROUP BY slice, cluster
HAVING argMax(state, (generation, attempt, state)) = 'committed'
    AND position(argMax(manifest, (generation, attempt, state)), ' frozen for ') = 0
