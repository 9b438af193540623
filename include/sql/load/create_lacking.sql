-- Of each unit and column: rows whose event has no value for it, and which got a default, or NULL. Of each check: rows
-- that fail it.
CREATE TABLE {lacking}
(
    slice DateTime('UTC'),
    cluster LowCardinality(String),
    defaulted Map(String, UInt64),
    nulls Map(String, UInt64),
    failed Map(String, UInt64)
)
ENGINE = MergeTree
ORDER BY (slice, cluster)
