-- The state of a replicated target's replica.
SELECT
    is_readonly,
    active_replicas,
    total_replicas,
    queue_size,
    absolute_delay
FROM system.replicas
WHERE database = {database:String} AND table = {name:String}
