CREATE TABLE @DB@.t (
  doc JSON(at Nullable(DateTime64(3, 'UTC')), u.day Nullable(Date32), u.at Nullable(DateTime('Europe/Berlin')), l Array(DateTime64(3, 'UTC')), m Map(String, DateTime('UTC')), t Tuple(a Nullable(DateTime64(3, 'UTC')), b Nullable(UInt8)), v Variant(DateTime64(3, 'UTC'), UInt64), j JSON(at Nullable(DateTime64(3, 'UTC')))),
  docs Array(JSON(at DateTime64(3, 'UTC'))),
  berlin JSON(at Nullable(DateTime64(3, 'Europe/Berlin')), l Array(DateTime('Europe/Berlin'))),
  count JSON(at Nullable(DateTime64(3, 'UTC')), l Array(DateTime64(3, 'UTC'))),
  v Variant(DateTime64(3, 'UTC'), UInt64),
  m Map(DateTime('UTC'), DateTime('UTC')),
  t Tuple(a Nullable(DateTime64(3, 'UTC'))),
  n Nested(at DateTime64(3, 'UTC')),
  free Dynamic,
  _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice
