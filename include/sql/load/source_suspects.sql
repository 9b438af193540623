-- A range of the rows of an INSERT that failed.
SELECT {columns}
FROM {suspects}
WHERE _number >= {first} AND _number < {end}
