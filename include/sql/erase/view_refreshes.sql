-- When the newest refresh of each view that succeeded began and ended, in milliseconds; 0 where the server knows of none.
SELECT
    concat(database, '.', view),
    ifNull(toInt64(toUnixTimestamp(last_success_time)) * 1000, 0) AS began,
    began + ifNull(last_success_duration_ms, 0)
FROM system.view_refreshes
ORDER BY 1
