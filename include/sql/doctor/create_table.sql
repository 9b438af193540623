CREATE TABLE {unless}{table}
(
{columns}
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(_slice)
ORDER BY (_slice, _cluster)
