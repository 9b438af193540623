-- Seconds for which replaced parts and dropped tables stay on disk.
SELECT
    (SELECT toUInt64(value) FROM system.merge_tree_settings WHERE name = 'old_parts_lifetime'),
    (SELECT toUInt64(value) FROM system.server_settings WHERE name = 'database_atomic_delay_before_drop_table_sec')
