-- Those of these tables from which views take rows.
SELECT concat(database, '.', name)
FROM system.tables
WHERE database IN {databases:Array(String)} AND concat(database, '.', name) IN {tables:Array(String)}
  AND notEmpty(dependencies_table)
