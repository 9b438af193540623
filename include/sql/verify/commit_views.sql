-- The rows that each unit's commit put into the tables of views, by its newest row: none where a rollup's are frozen.
SELECT toUnixTimestamp(slice), toString(cluster), argMax(views, (generation, attempt, state))
FROM sluice.ledger
WHERE target = {target:String} AND table_uuid = {uuid:UUID}
GROUP BY slice, cluster
HAVING argMax(state, (generation, attempt, state)) = 'committed'
