CREATE TABLE {rejected_rows} AS {rejected} ENGINE = MergeTree ORDER BY (slice, cluster)
