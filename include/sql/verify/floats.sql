-- The staged rows of some records of a cluster, with the columns that hold floating numbers.
SELECT {keys}, {values}
FROM {table}
WHERE _cluster = {cluster} AND ({keys}) IN ({records})
