SELECT formatDateTime(_slice, '%Y-%m-%d %H:%i', 'UTC') AS hour, _cluster AS cluster, count() AS rows
FROM
(
    SELECT _slice, _cluster FROM adx.bids
    UNION ALL
    SELECT _slice, _cluster FROM adx.impressions
    UNION ALL
    SELECT _slice, _cluster FROM adx.clicks
    UNION ALL
    SELECT _slice, _cluster FROM adx.other
)
GROUP BY _slice, _cluster
ORDER BY _slice, _cluster
