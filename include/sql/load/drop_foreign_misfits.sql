-- Every shard has counted all misfits; each keeps those of its own Kafka partitions.
DELETE FROM {misfits}
WHERE NOT {own}
