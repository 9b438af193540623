CREATE TABLE @DB@.t (user String, plan String, deleted Bool, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
