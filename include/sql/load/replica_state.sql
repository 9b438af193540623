-- The target's replica on this server, and which of all replicas Keeper shows as active.
SELECT replica_name, is_readonly, total_replicas, active_replicas, replica_is_active
FROM system.replicas
WHERE database = {database:String} AND table = {name:String}
