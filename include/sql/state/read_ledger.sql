-- What is committed for some tables in a range of slices, and what was revoked: of each unit the newest row, whoever
-- wrote it. A table recreated under the same name has another UUID, and starts with nothing.
SELECT
    newest.2 AS pipeline,
    newest.3 AS lake,
    target,
    toUnixTimestamp(slice),
    cluster,
    newest.4 AS manifest,
    newest.5 AS types,
    newest.6 AS landed,
    newest.7 AS rows,
    newest.8 AS rejected_rows,
    newest.9 AS token,
    newest.10 AS generation,
    newest.11 AS sharding,
    newest.12 AS rules,
    newest.13 AS columns,
    newest.14 AS counted,
    newest.15 AS defaulted,
    newest.16 AS nulls,
    newest.17 AS failed,
    newest.1 = 'committed' AS committed
FROM
(
    SELECT
        target,
        slice,
        cluster,
        argMax(
            (state, pipeline, lake, manifest, types, landed, rows, rejected_rows, token, generation, sharding, rules, columns,
                counted, defaulted, nulls, failed),
            (generation, attempt, state)
        ) AS newest
    FROM sluice.ledger
    WHERE target IN {targets:Array(String)}
        AND (target, table_uuid) IN (
            SELECT concat(database, '.', name), uuid
            FROM system.tables
            WHERE database IN {databases:Array(String)}
                AND concat(database, '.', name) IN {targets:Array(String)}
        )
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    GROUP BY target, slice, cluster
)
