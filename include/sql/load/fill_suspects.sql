-- One thread gives each row a number of its own.
INSERT INTO {suspects} ({columns}, _number)
SETTINGS max_threads = 1, max_insert_threads = 1
SELECT {columns}, rowNumberInAllBlocks() + {first}
FROM
(
    SELECT {columns}
    FROM ({source})
    WHERE {wanted}
)
