-- A column that does not take a value of its rollup, and its type.
SELECT {column}, {type}
FROM
(
    SELECT {named}
    FROM (SELECT {given} FROM (
{select}
) AS sluice_given)
)
WHERE {misfit}
LIMIT 1
{settings}
