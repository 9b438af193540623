-- What a table on a server that has left the pipeline file still holds, by unit.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
GROUP BY _slice, _cluster
