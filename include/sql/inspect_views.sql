-- The materialized views that an INSERT into the table feeds, each with its definition.
SELECT database, name, toString(uuid), create_table_query
FROM system.tables
WHERE engine = 'MaterializedView' AND (database, name) IN (
    SELECT dependency.1, dependency.2
    FROM system.tables
    ARRAY JOIN arrayZip(dependencies_database, dependencies_table) AS dependency
    WHERE database = {database:String} AND name = {name:String}
)
ORDER BY database, name
