-- The window would remove an equal INSERT, where a statement did not say otherwise.
CREATE TABLE {target}
(
    n UInt64,
    _slice DateTime('UTC'),
    _cluster LowCardinality(String)
)
ENGINE = MergeTree
PARTITION BY n % 3
ORDER BY n
SETTINGS non_replicated_deduplication_window = 100
