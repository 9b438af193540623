CREATE TABLE @DB@.three (kind UInt8, _type String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice;
CREATE TABLE @DB@.other (kind String, _type String, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
