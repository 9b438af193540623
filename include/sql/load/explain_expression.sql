-- A column's expression as the server understands it: the columns that it reads, and no others.
EXPLAIN QUERY TREE passes = 1
SELECT {expression} FROM {table}
SETTINGS enable_analyzer = 1
