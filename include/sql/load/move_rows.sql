-- From the staging table into the target and its views.
INSERT INTO {target} ({columns})
SELECT {columns}
FROM {staging}
WHERE (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
