-- Adds the columns that ledgers of earlier versions lack.
ALTER TABLE sluice.ledger
    ADD COLUMN IF NOT EXISTS sharding String DEFAULT '',
    ADD COLUMN IF NOT EXISTS views Array(String) DEFAULT [],
    ADD COLUMN IF NOT EXISTS rules String DEFAULT '',
    ADD COLUMN IF NOT EXISTS counted Bool,
    ADD COLUMN IF NOT EXISTS defaulted Map(String, UInt64),
    ADD COLUMN IF NOT EXISTS nulls Map(String, UInt64)
