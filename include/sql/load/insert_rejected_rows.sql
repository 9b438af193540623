INSERT INTO {rejected}
    (target, slice, cluster, topic, partition, offset, timestamp, type, column, reason, value, payload, row, pipeline)
SELECT
    target, slice, cluster, topic, partition, offset, timestamp, type, column, reason, value, payload, row, {pipeline:String}
FROM {rejected_rows}
WHERE (slice, cluster) IN (SELECT slice, cluster FROM {fence})
