-- Which replica a replicated table is, and of whom: all replicas of one path hold the same rows.
SELECT zookeeper_path, replica_name, mapKeys(replica_is_active)
FROM system.replicas
WHERE database = {database:String} AND table = {name:String}
