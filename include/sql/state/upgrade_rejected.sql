-- Misfits of versions before messages could be arrays lack it.
ALTER TABLE sluice.rejected ADD COLUMN IF NOT EXISTS row Int32 DEFAULT 0
