-- Rows of the lake's files whose every value fits go to the staging table. Two threads sort and write them: one
-- alone would keep waiting those that parse.
INSERT INTO {staging} ({columns})
SETTINGS max_insert_threads = 2
SELECT {values}
FROM
(
    SELECT {named}
    FROM ({source})
    WHERE {routed}
)
WHERE NOT ({misfit})
{format}
