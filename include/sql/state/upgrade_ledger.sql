-- Adds the columns that ledgers of earlier versions lack.
ALTER TABLE sluice.ledger
    ADD COLUMN IF NOT EXISTS sharding String DEFAULT '',
    ADD COLUMN IF NOT EXISTS views Array(String) DEFAULT [],
    ADD COLUMN IF NOT EXISTS rules String DEFAULT ''
