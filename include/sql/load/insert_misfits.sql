INSERT INTO {rejected}
    (target, slice, cluster, topic, partition, offset, timestamp, type, column, reason, value, payload, row)
SELECT target, slice, cluster, topic, partition, offset, timestamp, type, column, reason, value, payload, row
FROM {misfits}
WHERE (slice, cluster) IN (SELECT slice, cluster FROM {fence})
