-- When units were loaded into tables of the pipeline for the last time, in milliseconds. `until` is the end of the last
-- slice.
SELECT
    target,
    toUnixTimestamp(slice),
    toString(cluster),
    toUnixTimestamp64Milli(argMax(at, (generation, attempt, state)))
FROM sluice.ledger
WHERE pipeline = {pipeline:String}
    AND lake = {lake:String}
    AND target IN {targets:Array(String)}
    AND toUnixTimestamp(slice) >= {start:Int64}
    AND toUnixTimestamp(slice) < {until:Int64}
GROUP BY target, slice, cluster
ORDER BY target, slice, cluster
