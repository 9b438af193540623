CREATE TABLE @DB@.logins (id UInt32, owner String, user String, _offset Int64, _row Int32, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
