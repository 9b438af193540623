-- Active parts in the fullest partition of each of these tables.
SELECT name, max(parts)
FROM
(
    SELECT concat(database, '.', table) AS name, partition_id, count() AS parts
    FROM system.parts
    WHERE active AND name IN {tables:Array(String)}
    GROUP BY name, partition_id
)
GROUP BY name
ORDER BY name
