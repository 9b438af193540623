-- Ledgers of versions before the shards lack the first, those of before it was known which views a commit has the second.
ALTER TABLE sluice.ledger
    ADD COLUMN IF NOT EXISTS sharding String DEFAULT '',
    ADD COLUMN IF NOT EXISTS views Array(String) DEFAULT []
