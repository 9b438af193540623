-- After how many seconds the first of a table's TTLs deletes a row whose every time is the same instant.
WITH toDateTime('2020-06-01 00:00:00', 'UTC') AS _same_instant
SELECT arrayMin([{expiries}]) - toInt64(_same_instant) FROM (SELECT {columns})
