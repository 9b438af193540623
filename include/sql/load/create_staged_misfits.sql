CREATE TABLE {misfits} AS sluice.rejected ENGINE = MergeTree ORDER BY (slice, cluster)
