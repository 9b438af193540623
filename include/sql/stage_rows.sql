-- Rows of the lake's files whose every value fits go to the staging table.
INSERT INTO {staging} ({columns})
SELECT {values}
FROM
(
    SELECT {named}
    FROM ({source})
    WHERE {routed}
)
WHERE NOT ({misfit})
{format}
