-- The same of all blocks together, without columns of which no row lacks a value and checks that no row fails.
SELECT
    slice,
    cluster,
    mapFilter((name, rows) -> rows > 0, sumMap(defaulted)) AS defaulted,
    mapFilter((name, rows) -> rows > 0, sumMap(nulls)) AS nulls,
    mapFilter((name, rows) -> rows > 0, sumMap(failed)) AS failed
FROM {lacking}
GROUP BY slice, cluster
