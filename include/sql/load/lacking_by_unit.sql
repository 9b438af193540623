-- The same of all blocks together, without columns of which no row lacks a value.
SELECT
    slice,
    cluster,
    mapFilter((name, rows) -> rows > 0, sumMap(defaulted)) AS defaulted,
    mapFilter((name, rows) -> rows > 0, sumMap(nulls)) AS nulls
FROM {lacking}
GROUP BY slice, cluster
