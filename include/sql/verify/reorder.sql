-- The same rows in an order that chance decides, in blocks of so many.
INSERT INTO {staging} ({columns})
SETTINGS max_insert_threads = 1, max_block_size = {block}, min_insert_block_size_rows = {block}, min_insert_block_size_bytes = 0
SELECT {columns}
FROM {rows}
ORDER BY rand()
