-- Tables of loads that are dropped, and whose files are not removed yet.
SELECT toString(uuid)
FROM system.dropped_tables
WHERE database IN {databases:Array(String)}
ORDER BY 1
