SELECT toUnixTimestamp(slice), cluster, count()
FROM {table}
WHERE target = {target:String} AND (slice, cluster) IN (SELECT slice, cluster FROM {fence})
GROUP BY slice, cluster
