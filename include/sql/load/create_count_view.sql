CREATE MATERIALIZED VIEW {view} TO {counted} AS
SELECT _slice AS slice, _cluster AS cluster, count() AS rows, countIf({own}) AS own
FROM {entry}
GROUP BY slice, cluster
