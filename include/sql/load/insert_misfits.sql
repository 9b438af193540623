INSERT INTO sluice.rejected
SELECT *
FROM {misfits}
WHERE (slice, cluster) IN (SELECT slice, cluster FROM {fence})
