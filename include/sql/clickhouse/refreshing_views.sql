-- Materialized views that refresh by themselves, as far as the text of their definition says.
SELECT database, name, toString(uuid), create_table_query, as_select
FROM system.tables
WHERE engine = 'MaterializedView' AND position(create_table_query, ' REFRESH ') > 0
ORDER BY database, name
