-- Before anything is removed: what is about to be replaced is not committed any more.
INSERT INTO {ledger}
    (pipeline, lake, target, table_uuid, slice, cluster, generation, attempt, state, manifest, types, landed, token, sharding, rules)
SELECT
    {pipeline:String}, {lake:String}, {target:String}, {table_uuid:UUID}, slice, cluster,
    {generation:UInt64}, {attempt:UInt32}, 'revoked', manifest, types, landed, {token:String}, {sharding:String}, {rules:String}
FROM {fence}
WHERE replaces
