-- Entries that wait in the replication queues of these tables.
SELECT concat(database, '.', table) AS name, count()
FROM system.replication_queue
WHERE name IN {tables:Array(String)}
GROUP BY name
ORDER BY name
