-- Of each unit: rows that this shard has seen of the lake's files, and its own among them.
CREATE TABLE {counted}
(
    slice DateTime('UTC'),
    cluster LowCardinality(String),
    rows UInt64,
    own UInt64
)
ENGINE = MergeTree
ORDER BY (slice, cluster)
