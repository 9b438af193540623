-- The rules by which units were loaded into tables of the pipeline: those of the newest load, and of all. `until` is the
-- end of the last slice.
SELECT
    target,
    toUnixTimestamp(slice),
    toString(cluster),
    argMax(rules, (generation, attempt, state)),
    groupUniqArray(rules)
FROM sluice.ledger
WHERE pipeline = {pipeline:String}
    AND lake = {lake:String}
    AND target IN {targets:Array(String)}
    AND toUnixTimestamp(slice) >= {start:Int64}
    AND toUnixTimestamp(slice) < {until:Int64}
    AND rules != ''
GROUP BY target, slice, cluster
ORDER BY target, slice, cluster
