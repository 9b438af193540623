-- The lake's rows of an INSERT that failed, numbered, so that any range of them can be tried again.
CREATE TABLE {suspects} ({definitions}, _number UInt64) ENGINE = MergeTree ORDER BY _number
SETTINGS index_granularity = 128
