-- What is committed, and what was and is revoked. Rows are only ever added; of one (target, table, slice,
-- cluster) the newest decides: highest lease generation, then attempt, then committed over revoked.
-- `sharding`: which of which shards, placed by what, this one was; rows and rejected rows are its share of landed.
-- `rules`: the digest of the rules of the load (state/rules.py); a revocation has those of the load that revokes.
-- `columns`: of a table of newest rows, those that the load filled.
-- `views`: by table that materialized views fill, and by which SELECTs (as a digest), the rows that stay in it.
-- `defaulted`, `nulls`: by column the rows whose event has no value for it, and which got a default, or NULL. Rows of
-- which that is not known are not `counted`.
-- `failed`: by check of the pipeline file the rows that fail it, and are in the table.
CREATE TABLE IF NOT EXISTS sluice.ledger
(
    pipeline LowCardinality(String),
    lake LowCardinality(String),
    target LowCardinality(String),
    table_uuid UUID,
    slice DateTime('UTC'),
    cluster LowCardinality(String),
    generation UInt64,
    attempt UInt32,
    state Enum8('revoked' = 0, 'committed' = 1),
    manifest String,
    types Array(LowCardinality(String)),
    landed UInt64,
    rows UInt64,
    rejected_rows UInt64,
    token String,
    sharding String,
    views Map(String, UInt64),
    rules String,
    columns Array(LowCardinality(String)),
    counted Bool,
    defaulted Map(String, UInt64),
    nulls Map(String, UInt64),
    failed Map(String, UInt64),
    at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY (target, table_uuid, slice, cluster, generation, attempt, state)
COMMENT 'Sluice: what is committed, format 1'
