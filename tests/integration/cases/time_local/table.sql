CREATE TABLE @DB@.t (seen DateTime64(9, 'UTC'), all Array(DateTime64(9, 'UTC')), day Date, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
