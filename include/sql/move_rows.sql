-- From the staging table into the target and its views. A range of partitions at a time, so that no INSERT
-- touches more of them than the server allows.
INSERT INTO {target} ({columns})
SELECT {columns}
FROM {staging}
WHERE {range} AND (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
