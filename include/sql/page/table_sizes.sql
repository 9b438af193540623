-- Active parts of these tables, their bytes on disk, their rows without those of parts with deleted rows, and how many
-- such parts there are; a table without parts of its own is left out.
SELECT
    concat(database, '.', table) AS name,
    count(),
    sum(bytes_on_disk),
    sumIf(rows, NOT has_lightweight_delete),
    countIf(has_lightweight_delete)
FROM system.parts
WHERE active AND database IN {databases:Array(String)} AND name IN {tables:Array(String)}
GROUP BY name
