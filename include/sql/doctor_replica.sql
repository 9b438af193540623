-- The state of a replicated target's replica, and the quorum that this user's inserts ask for.
SELECT
    is_readonly,
    active_replicas,
    total_replicas,
    queue_size,
    absolute_delay,
    (SELECT any(value) FROM system.settings WHERE name = 'insert_quorum') AS insert_quorum
FROM system.replicas
WHERE database = {database:String} AND table = {name:String}
