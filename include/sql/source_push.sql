-- The lake's rows, sent to the server as the statement's data.
SELECT {columns}, _slice
FROM input({structure})
