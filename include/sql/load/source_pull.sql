-- The lake's files, read by the server itself. The file's name begins with its slice.
SELECT {columns}, {slice} AS _slice
FROM file({files}, 'Parquet', {structure})
