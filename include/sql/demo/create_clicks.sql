CREATE TABLE IF NOT EXISTS adx.clicks
(
    id String,
    timestamp DateTime64(3, 'UTC'),
    country LowCardinality(String),
    exchange LowCardinality(String),
    price Nullable(Decimal(12, 4)),
    _slice DateTime('UTC'),
    _cluster LowCardinality(String),
    _type LowCardinality(String),
    _topic LowCardinality(String),
    _partition Int32,
    _offset Int64
)
ENGINE = MergeTree
PARTITION BY toDate(_slice)
ORDER BY (_slice, timestamp)
