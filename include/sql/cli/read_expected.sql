-- Traffic by hour and one field, expected and seen; NULL where there is nothing to say.
SELECT toUnixTimestamp(hour), {key}, sum(expected), sum(seen)
FROM {view}
GROUP BY hour, {key}
ORDER BY hour, {key}
