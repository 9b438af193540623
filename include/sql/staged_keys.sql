-- The target's partitions that the staged rows belong to, as text.
SELECT DISTINCT toString(tuple({partition_key})) AS key
FROM {staging}
ORDER BY key
