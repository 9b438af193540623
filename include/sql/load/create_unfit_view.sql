-- Rows that fail a check that rejects, with their records. The aliases are the names of the table's columns, as in
-- create_count_view.sql.
CREATE MATERIALIZED VIEW {view} TO {rejected_rows} AS
SELECT
    {target} AS target, _slice AS slice, _cluster AS cluster, {topic} AS topic, {partition} AS partition,
    {offset} AS offset, {timestamp} AS timestamp, {type} AS type, {column} AS column, {reason} AS reason,
    '' AS value, {payload} AS payload, {row} AS row
FROM {entry}
WHERE NOT ({passing})
SETTINGS prefer_column_name_to_alias = 1
