CREATE TABLE IF NOT EXISTS adx.other
(
    _payload String,
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
ORDER BY (_slice, _type)
