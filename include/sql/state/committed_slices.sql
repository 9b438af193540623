-- For readers who must never see half an hour: only slices that the ledger says are committed.
SELECT *
FROM {target}
WHERE (_slice, _cluster) IN (
    SELECT slice, cluster
    FROM sluice.ledger
    WHERE target = {target_name} AND table_uuid = {table_uuid}
    GROUP BY slice, cluster
    HAVING argMax(state, (generation, attempt, state)) = 'committed'
)
