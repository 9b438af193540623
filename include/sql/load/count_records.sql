-- Rows of the lake's files that go to the target, and this shard's among them; nothing is parsed.
INSERT INTO {counted} (slice, cluster, rows, own)
SELECT _slice AS slice, _cluster AS cluster, count() AS rows, countIf({own}) AS own
FROM ({source})
WHERE {routed}
GROUP BY slice, cluster
