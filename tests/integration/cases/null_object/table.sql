CREATE TABLE @DB@.change (id UInt32, day Int32 DEFAULT 7, note Nullable(String), op String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.mild (id UInt32, op String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.some (id UInt32, op String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.all (id UInt32, op String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
