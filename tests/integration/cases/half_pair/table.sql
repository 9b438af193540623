CREATE TABLE @DB@.t (s String, j JSON, _payload String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
