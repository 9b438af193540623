-- The staged rows of some records, with the columns that hold floating numbers.
SELECT {keys}, {values}
FROM {table}
WHERE ({keys}) IN ({records})
