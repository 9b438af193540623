-- Active parts of these tables, their bytes on disk and their rows; a table without parts of its own is left out.
SELECT concat(database, '.', table) AS name, count(), sum(bytes_on_disk), sum(rows)
FROM system.parts
WHERE active AND database IN {databases:Array(String)} AND name IN {tables:Array(String)}
GROUP BY name
