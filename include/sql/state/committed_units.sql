SELECT slice, cluster
FROM sluice.ledger
WHERE target = {target_name} AND table_uuid = {table_uuid}
GROUP BY slice, cluster
HAVING argMax(state, (generation, attempt, state)) = 'committed'
