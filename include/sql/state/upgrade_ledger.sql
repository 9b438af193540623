-- Ledgers of versions before the shards lack the first, those of before it was known which views a commit has the
-- second, and those of before rows without a value were counted the last three.
ALTER TABLE sluice.ledger
    ADD COLUMN IF NOT EXISTS sharding String DEFAULT '',
    ADD COLUMN IF NOT EXISTS views Array(String) DEFAULT [],
    ADD COLUMN IF NOT EXISTS counted Bool,
    ADD COLUMN IF NOT EXISTS defaulted Map(String, UInt64),
    ADD COLUMN IF NOT EXISTS nulls Map(String, UInt64)
