-- With which views each unit of a table was committed, by its newest row: none where a rollup's rows are frozen.
SELECT toUnixTimestamp(slice), toString(cluster), argMax(views, (generation, attempt, state))
FROM sluice.ledger
WHERE target = {target:String} AND table_uuid = {uuid:UUID}
GROUP BY slice, cluster
HAVING argMax(state, (generation, attempt, state)) = 'committed'
