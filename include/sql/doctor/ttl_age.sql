-- After how many seconds the first of a table's TTLs deletes a row whose every time is the same instant: the least of
-- the hours of a day, for a TTL may count from the begin of the day.
SELECT min(arrayMin([{expiries}]) - toInt64(_same_instant))
FROM (
    SELECT {columns}, _same_instant
    FROM (SELECT toDateTime('2020-06-01 00:00:00', 'UTC') + 3600 * number AS _same_instant FROM numbers(24))
)
