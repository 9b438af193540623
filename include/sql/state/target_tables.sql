-- Those of these tables that are there.
SELECT concat(database, '.', name)
FROM system.tables
WHERE database IN {databases:Array(String)} AND concat(database, '.', name) IN {tables:Array(String)}
