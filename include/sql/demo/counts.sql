SELECT formatDateTime(_slice, '%Y-%m-%d %H:%i', 'UTC') AS hour, type, table, count() AS rows
FROM
(
    SELECT _slice, _type AS type, 'adx.bids' AS table FROM adx.bids
    UNION ALL
    SELECT _slice, _type AS type, 'adx.impressions' AS table FROM adx.impressions
    UNION ALL
    SELECT _slice, _type AS type, 'adx.clicks' AS table FROM adx.clicks
    UNION ALL
    SELECT _slice, _type AS type, 'adx.other' AS table FROM adx.other
)
GROUP BY _slice, type, table
ORDER BY _slice, table, type
