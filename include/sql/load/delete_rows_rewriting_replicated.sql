-- As delete_rows_replicated, for a table with projections.
ALTER TABLE {table}
DELETE WHERE (_slice, _cluster) IN ({units}) AND notEmpty({marker}) AND (SELECT count() FROM {fence}) > 0
