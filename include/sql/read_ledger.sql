-- What is committed for some pipelines' tables in a range of slices: of each unit the newest row, where that is
-- not a revocation. A table made again under the same name has another UUID, and starts with nothing.
SELECT
    pipeline,
    lake,
    target,
    toUnixTimestamp(slice),
    cluster,
    newest.2 AS manifest,
    newest.3 AS types,
    newest.4 AS landed,
    newest.5 AS rows,
    newest.6 AS misfits,
    newest.7 AS token,
    newest.8 AS generation,
    newest.9 AS sharding
FROM
(
    SELECT
        pipeline,
        lake,
        target,
        slice,
        cluster,
        argMax(
            (state, manifest, types, landed, rows, misfits, token, generation, {sharding}),
            (generation, attempt, state)
        ) AS newest
    FROM sluice.ledger
    WHERE target IN {targets:Array(String)} AND pipeline IN {pipelines:Array(String)}
        AND lake IN {lakes:Array(String)}
        AND (target, table_uuid) IN (
            SELECT concat(database, '.', name), uuid
            FROM system.tables
            WHERE database IN {databases:Array(String)}
                AND concat(database, '.', name) IN {targets:Array(String)}
        )
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY pipeline, lake, target, slice, cluster
)
WHERE newest.1 = 'committed'
