CREATE TABLE @DB@.t (a Int32, amount Nullable(String), at Nullable(DateTime64(9, 'UTC')), _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
