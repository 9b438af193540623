-- The lake's files in S3, read by the server itself; the named collection has address and credentials.
SELECT {columns}, {slice} AS _slice
FROM s3({collection}, filename = {objects}, format = 'Parquet', structure = {structure})
