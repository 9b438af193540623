-- Rows in the target or the staging table, of the attempt's slices and clusters: to group by both columns, or to look
-- the pair up for every row, takes five times as long as to count them.
SELECT slice, found.1 AS cluster, found.2 AS rows
FROM
(
    SELECT _slice AS slice, [{clusters}] AS counted
    FROM {table}
    WHERE _slice IN (SELECT slice FROM {fence})
    GROUP BY _slice
)
ARRAY JOIN counted AS found
WHERE rows > 0
