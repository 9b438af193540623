CREATE TABLE {rejected_rows} AS sluice.rejected ENGINE = MergeTree ORDER BY (slice, cluster)
