-- The same for one of Sluice's tables, which may be replicated: this one is not.
CREATE TABLE {rehearsed} AS {like}
ENGINE = MergeTree
ORDER BY (target, slice, cluster)
