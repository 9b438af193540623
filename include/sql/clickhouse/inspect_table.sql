SELECT engine, engine_full, toString(uuid), partition_key, sorting_key
FROM system.tables
WHERE database = {database:String} AND name = {name:String}
