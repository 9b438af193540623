-- Whatever is there of the units, whoever left it.
DELETE FROM {table}
WHERE (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
