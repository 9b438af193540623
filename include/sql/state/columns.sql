-- The columns of some tables that have values, and whether an INSERT may name them.
SELECT concat(database, '.', table), name, default_kind IN ('', 'DEFAULT')
FROM system.columns
WHERE database IN {databases:Array(String)} AND concat(database, '.', table) IN {tables:Array(String)}
    AND default_kind IN ('', 'DEFAULT', 'MATERIALIZED')
