-- Mutations of these tables that have failed, and are tried again and again: every later one waits behind them.
SELECT concat(database, '.', table) AS name, mutation_id, latest_fail_reason
FROM system.mutations
WHERE NOT is_done AND notEmpty(latest_fail_reason) AND name IN {tables:Array(String)}
ORDER BY name, mutation_id
