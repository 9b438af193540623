CREATE TABLE @DB@.clicks (at DateTime('UTC'), user UInt8, tags Array(String), _offset Int64, _row Int32, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
