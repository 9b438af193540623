SELECT name
FROM system.tables
WHERE database = 'sluice' AND name IN {names:Array(String)}
