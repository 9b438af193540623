-- The aliases are the names of the table's columns, as in create_count_view.sql.
CREATE MATERIALIZED VIEW {view} TO {lacking} AS
SELECT _slice AS slice, _cluster AS cluster, {defaulted} AS defaulted, {nulls} AS nulls,
    {failed} AS failed
FROM {entry}
WHERE {own}
GROUP BY _slice, _cluster
SETTINGS prefer_column_name_to_alias = 1
