-- Misfits of versions before messages could be arrays lack `row`, and those before rows had an owner `pipeline`.
ALTER TABLE sluice.rejected
    ADD COLUMN IF NOT EXISTS row Int32 DEFAULT 0,
    ADD COLUMN IF NOT EXISTS pipeline LowCardinality(String) DEFAULT ''
