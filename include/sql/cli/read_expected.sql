-- Traffic by hour and one field, expected and seen; NULL where there is nothing to say.
SELECT toUnixTimestamp(hour) AS at, {key} AS value, sum(expected), sum(seen)
FROM {view}
GROUP BY at, value
ORDER BY at, value
