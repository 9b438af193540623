-- For readers who must never see half an hour: only slices that the ledger says are committed.
SELECT *
FROM {target}
WHERE (_slice, _cluster) IN (
{units}
)
