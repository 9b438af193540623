-- Rejected rows: rows that landed in the lake, but hold a value that does not fit a column of their table.
-- `pipeline`: whose load rejected them.
CREATE TABLE IF NOT EXISTS sluice.rejected
(
    target LowCardinality(String),
    slice DateTime('UTC'),
    cluster LowCardinality(String),
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    timestamp DateTime64(3, 'UTC'),
    type LowCardinality(String),
    column LowCardinality(String),
    reason String,
    value String,
    payload String,
    row Int32,
    pipeline LowCardinality(String)
)
ENGINE = MergeTree
ORDER BY (target, slice, cluster)
