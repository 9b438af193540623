-- What gets the rows of every INSERT into the table, whether or not the user may see it.
SELECT dependency.1, dependency.2
FROM system.tables
ARRAY JOIN arrayZip(dependencies_database, dependencies_table) AS dependency
WHERE database = {database:String} AND name = {name:String}
ORDER BY dependency
