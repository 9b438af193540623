-- Rows of a table's parts with deleted rows, without these: system.parts counts them until a merge.
SELECT count()
FROM {table}
WHERE _part IN (
    SELECT name
    FROM system.parts
    WHERE active AND has_lightweight_delete AND concat(database, '.', table) = {name:String}
)
