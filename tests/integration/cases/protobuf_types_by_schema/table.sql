CREATE TABLE @DB@.orders (id Int64, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.refunds (id Int64, why String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.lines (n Int32, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
