-- Rows of a log, each with its version. The table that they go to keeps the newest of each key.
INSERT INTO {staging} ({columns})
SELECT {values}
FROM {log}
WHERE {rows}
{settings}
