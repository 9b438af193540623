-- Small files are small blocks, and a statement's expressions cost each block as much as some thousand rows. A
-- join makes large blocks of small ones, and LIMIT keeps the expressions behind it.
SELECT small.*
FROM ({source}) AS small
CROSS JOIN (SELECT 1 AS one) AS single
LIMIT 1000000000000000000
