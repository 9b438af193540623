-- Which pipeline, out of which lake, a target table belongs to: the first claim counts.
-- `lease`: what the lease of the table on this server is named after; empty: the table.
CREATE TABLE IF NOT EXISTS sluice.targets
(
    target String,
    pipeline String,
    lake String,
    lease String,
    at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (target, at)
