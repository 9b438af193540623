-- Claims of versions before the shards lack it: their lease is named like the table.
ALTER TABLE sluice.targets ADD COLUMN IF NOT EXISTS lease String DEFAULT ''
