-- The comments of a table's columns.
SELECT name, comment
FROM system.columns
WHERE database = {database:String} AND table = {name:String} AND comment != ''
