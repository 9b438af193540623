CREATE TABLE @DB@.t (id Int64, d Nullable(Date32), ts Nullable(DateTime64(6, 'UTC')), ts3 Nullable(DateTime64(3, 'UTC')),
tstz Nullable(DateTime64(6, 'UTC')), tm Nullable(String), n Nullable(Decimal(12, 4)), nn Nullable(Decimal(38, 12)), j Nullable(String), doc JSON,
u Nullable(UUID), bi Nullable(String), da Array(Date), mo LowCardinality(Nullable(String)), ok Nullable(Bool), op String, deleted Bool, lsn UInt64,
_offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
