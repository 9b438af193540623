-- A block of the same rows, in an order that chance decides.
INSERT INTO {staging} ({columns})
SETTINGS max_insert_threads = 1
SELECT {columns}
FROM {rows}
WHERE {block}
ORDER BY rand()
