-- One row for each unit of the attempt, also for those without rows. Every statement that writes reads it.
CREATE TABLE {fence}
(
    slice DateTime('UTC'),
    cluster LowCardinality(String),
    landed UInt64,
    manifest String,
    types Array(String),
    replaces Bool
)
ENGINE = MergeTree
ORDER BY (slice, cluster)
