-- One value that stopped a rollup.
SELECT {column}, {type}, {value}
FROM
(
    SELECT {named}
    FROM (SELECT {given} FROM (
{select}
))
)
WHERE {misfit}
LIMIT 1
{settings}
