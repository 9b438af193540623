-- An INSERT into the table takes a tenth of a second for each of its blocks.
CREATE MATERIALIZED VIEW {view} ENGINE = Null AS
SELECT 1 AS one
FROM {table}
WHERE sleepEachRow(0.1) = 0
