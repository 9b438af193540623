SELECT comment
FROM system.tables
WHERE database = {database:String} AND name = {name:String}
