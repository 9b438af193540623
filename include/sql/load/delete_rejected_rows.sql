DELETE FROM {rejected}
WHERE target = {target:String} AND (slice, cluster) IN (SELECT slice, cluster FROM {fence})
