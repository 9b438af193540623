-- Ledgers of versions before the shards lack it.
ALTER TABLE sluice.ledger ADD COLUMN IF NOT EXISTS sharding String DEFAULT ''
