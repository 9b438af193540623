-- What is in the scratch database.
SELECT name
FROM system.tables
WHERE database = {database:String}
ORDER BY name
