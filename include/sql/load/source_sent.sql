-- The lake's rows that were sent to a table of the attempt's own.
SELECT {columns}, _slice
FROM {sent}
