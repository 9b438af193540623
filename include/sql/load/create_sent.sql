-- Rows of the lake's files, for a server that cannot read these itself.
CREATE TABLE {sent} ({definitions}) ENGINE = MergeTree ORDER BY tuple()
