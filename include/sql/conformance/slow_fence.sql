-- A statement takes a tenth of a second for each row that it reads from the fence.
CREATE VIEW {fence} AS
SELECT *
FROM {rows}
WHERE sleepEachRow(0.09) = 0
