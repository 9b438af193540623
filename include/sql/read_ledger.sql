-- What is committed for a table in a range of slices: of each unit the newest row, where that is not a
-- revocation. A table made again under the same name has another UUID, and starts with nothing.
SELECT
    toUnixTimestamp(slice),
    cluster,
    newest.2 AS manifest,
    newest.3 AS types,
    newest.4 AS landed,
    newest.5 AS rows,
    newest.6 AS misfits,
    newest.7 AS token,
    newest.8 AS generation
FROM
(
    SELECT
        slice,
        cluster,
        argMax(
            (state, manifest, types, landed, rows, misfits, token, generation),
            (generation, attempt, state)
        ) AS newest
    FROM sluice.ledger
    WHERE target = {target:String} AND pipeline = {pipeline:String} AND lake = {lake:String}
        AND table_uuid IN (
            SELECT uuid
            FROM system.tables
            WHERE database = {database:String} AND name = {name:String}
        )
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY slice, cluster
)
WHERE newest.1 = 'committed'
