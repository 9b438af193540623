CREATE TABLE IF NOT EXISTS adx.traffic
(
    hour DateTime('UTC'),
    type LowCardinality(String),
    country LowCardinality(Nullable(String)),
    exchange LowCardinality(Nullable(String)),
    count UInt64,
    _slice DateTime('UTC'),
    _cluster LowCardinality(String)
)
ENGINE = MergeTree
PARTITION BY toDate(_slice)
ORDER BY (hour, type)
