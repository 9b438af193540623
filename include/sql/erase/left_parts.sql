-- Parts that may still hold deleted rows: active ones in which they are only hidden, and replaced ones.
SELECT concat(database, '.', table) AS name, part, active
FROM (SELECT database, table, name AS part, active, has_lightweight_delete FROM system.parts)
WHERE name IN {tables:Array(String)} AND (NOT active OR has_lightweight_delete)
ORDER BY name, part
