-- The aliases are the names of the table's columns. The setting keeps them out of the expression that places a row,
-- which may read columns of these names.
CREATE MATERIALIZED VIEW {view} TO {counted} AS
SELECT _slice AS slice, _cluster AS cluster, count() AS rows, countIf({own}) AS own
FROM {entry}
WHERE {passing}
GROUP BY _slice, _cluster
SETTINGS prefer_column_name_to_alias = 1
