-- As delete_rows, for a table with projections, which a lightweight DELETE refuses.
ALTER TABLE {table}
DELETE WHERE (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
