-- When one unit of a table was committed, in milliseconds, by its newest row; nothing where that is a revocation.
SELECT toUnixTimestamp64Milli(argMax(at, (generation, attempt, state)))
FROM sluice.ledger
WHERE target = {target:String} AND slice = toDateTime({slice:UInt32}, 'UTC') AND cluster = {cluster:String}
    AND table_uuid IN (
        SELECT uuid FROM system.tables WHERE database = {database:String} AND name = {name:String}
    )
HAVING argMax(state, (generation, attempt, state)) = 'committed'
