-- Event hours whose newest ledger row is a revocation: a load has begun to replace them, and has not ended.
SELECT toUnixTimestamp(slice)
FROM sluice.ledger
WHERE target = {target:String} AND cluster = ''
    AND (target, table_uuid) IN (
        SELECT concat(database, '.', name), uuid
        FROM system.tables
        WHERE concat(database, '.', name) = {target:String}
    )
GROUP BY slice
HAVING argMax(state, (generation, attempt, state)) = 'revoked'
