SELECT engine, toString(uuid), create_table_query, as_select
FROM system.tables
WHERE database = {database:String} AND name = {name:String}
