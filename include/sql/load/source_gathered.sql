-- Small files are small blocks, and a statement's expressions cost each block as much as some thousand rows. A
-- join makes large blocks of small ones, and LIMIT keeps the expressions behind it. A small file is read by one
-- thread: more of them would only wait for each other. And it is not mapped into memory, as chDB would do: to unmap
-- it again all threads are interrupted.
SELECT small.*
FROM
(
    {source}
    SETTINGS max_parsing_threads = 1, input_format_parquet_enable_row_group_prefetch = 0, storage_file_read_method = 'pread'
) AS small
CROSS JOIN (SELECT 1 AS one) AS single
LIMIT 1000000000000000000
