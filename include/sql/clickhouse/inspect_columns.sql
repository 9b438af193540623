SELECT name, type, default_kind, default_expression
FROM system.columns
WHERE database = {database:String} AND table = {name:String}
ORDER BY position
