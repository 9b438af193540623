-- Up to when a table has every hour since `lookback` ago, or since its first one.
WITH units AS (
    SELECT slice FROM (
        SELECT slice, cluster, argMax(state, (generation, attempt, state)) AS newest
        FROM sluice.ledger
        WHERE target = {target}
            AND table_uuid IN (SELECT uuid FROM system.tables WHERE concat(database, '.', name) = {target})
        GROUP BY slice, cluster
    )
    WHERE newest = 'committed' GROUP BY slice
    HAVING arrayAll(
        (name, begin) -> begin > toUnixTimestamp(slice) OR has(groupArray(cluster), name), [{clusters}], [{begins}]
    )
), (
    SELECT greatest(min(slice), toStartOfInterval(now('UTC') - INTERVAL {back} SECOND, INTERVAL {length} SECOND))
    FROM units
) AS first
SELECT if(
    first IN units,
    (SELECT min(slice + {length}) FROM units WHERE slice >= first AND slice + {length} NOT IN units),
    first
)
