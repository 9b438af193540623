-- Sample events as rows of the lake.
SELECT {columns}, _slice
FROM format('JSONEachRow', {structure}, {rows})
