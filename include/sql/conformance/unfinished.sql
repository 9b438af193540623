-- Mutations that are not done.
SELECT mutation_id
FROM system.mutations
WHERE database = {database:String} AND NOT is_done
ORDER BY mutation_id
