-- The rows as they are. No condition goes through a LIMIT: that of a wide table or of many containers, pushed down to
-- the files, would keep the server busy for minutes before it reads a row.
SELECT *
FROM
(
    {rows}
)
LIMIT 1000000000000000000
