CREATE TABLE @DB@.t (id UInt64, amount Nullable(Decimal(38, 18)), amount_text Nullable(String), d Nullable(String),
    at Nullable(DateTime64(9, 'UTC')), uid Nullable(UUID), took Nullable(String), clock Nullable(String),
    _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
