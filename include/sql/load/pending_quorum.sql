-- Inserts that are there, and have not reached their quorum yet: sequential reads do not show them, until they have.
SELECT path
FROM system.zookeeper
WHERE name = 'status' AND path IN (
    SELECT concat(zookeeper_path, '/quorum')
    FROM system.replicas
    WHERE concat(database, '.', table) IN {tables:Array(String)}
)
