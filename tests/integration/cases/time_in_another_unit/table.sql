CREATE TABLE @DB@.t (n UInt8, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
