-- One value that stopped a rollup.
SELECT {column}, {type}, {value}
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
