-- How many rows of each unit of a range a table has.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
WHERE toUnixTimestamp(_slice) >= {start:Int64} AND toUnixTimestamp(_slice) < {until:Int64}
GROUP BY ALL
