CREATE TABLE @DB@.t (shop String, id UInt32, name String, deleted Bool, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
