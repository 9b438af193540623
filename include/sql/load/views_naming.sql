-- Materialized views whose definition holds one of the texts.
SELECT database, name, toString(uuid), create_table_query
FROM system.tables
WHERE engine = 'MaterializedView' AND arrayExists(text -> position(create_table_query, text) > 0, {texts:Array(String)})
ORDER BY database, name
