-- Eight columns of an event, and the two that the load needs.
CREATE TABLE {table:Identifier}
(
    timestamp DateTime64(3, 'UTC'),
    id UUID,
    user_id UInt64,
    price Decimal(18, 4),
    country LowCardinality(String),
    width UInt16,
    ok Bool,
    url String,
    _slice DateTime('UTC'),
    _cluster LowCardinality(String)
)
ENGINE = MergeTree
PARTITION BY toDate(timestamp)
ORDER BY (country, timestamp)
