-- The commit point: one INSERT for all units of the attempt.
INSERT INTO {ledger}
    (pipeline, lake, target, table_uuid, slice, cluster, generation, attempt, state,
     manifest, types, landed, rows, rejected_rows, token, sharding, views, rules, columns, counted,
     defaulted, nulls, failed)
SELECT
    {pipeline:String}, {lake:String}, {target:String}, {table_uuid:UUID}, fence.slice, fence.cluster,
    {generation:UInt64}, {attempt:UInt32}, 'committed',
    fence.manifest, fence.types, fence.landed, staged.rows, rejected.rows, {token:String}, {sharding:String},
    views.rows, {rules:String}, {columns:Array(String)}, {counted:Bool}, lacking.defaulted, lacking.nulls,
    lacking.failed
FROM {fence} AS fence
LEFT JOIN ({staged}) AS staged ON staged.slice = fence.slice AND staged.cluster = fence.cluster
LEFT JOIN
(
    SELECT slice, cluster, count() AS rows
    FROM {rejected_rows}
    GROUP BY slice, cluster
) AS rejected ON rejected.slice = fence.slice AND rejected.cluster = fence.cluster
LEFT JOIN ({views}) AS views ON views.slice = fence.slice AND views.cluster = fence.cluster
LEFT JOIN ({lacking}) AS lacking ON lacking.slice = fence.slice AND lacking.cluster = fence.cluster
