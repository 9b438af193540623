CREATE TABLE IF NOT EXISTS adx.bids
(
    id String,
    timestamp DateTime64(3, 'UTC'),
    country LowCardinality(String),
    exchange LowCardinality(String),
    price Decimal(12, 4),
    device_os LowCardinality(Nullable(String)),
    device_country LowCardinality(Nullable(String)),
    _slice DateTime('UTC'),
    _cluster LowCardinality(String),
    _type LowCardinality(String),
    _topic LowCardinality(String),
    _partition Int32,
    _offset Int64,
    _timestamp DateTime64(3, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toDate(_slice)
ORDER BY (_slice, exchange, timestamp)
