-- Every shard has counted all rejected rows; each keeps those of its own Kafka partitions.
DELETE FROM {rejected_rows}
WHERE NOT {own}
