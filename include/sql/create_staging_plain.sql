-- Rows on their way to a target whose views want an INSERT: unsorted, it is read once.
CREATE TABLE {staging} ({definitions}) ENGINE = MergeTree ORDER BY tuple()
