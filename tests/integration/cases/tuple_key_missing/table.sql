CREATE TABLE @DB@.t (items Array(Tuple(sku String, qty UInt8)), _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
