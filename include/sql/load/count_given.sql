-- Rows of some slices whose value of a column is not its DEFAULT.
SELECT count()
FROM {target}
WHERE toUnixTimestamp(_slice) IN {starts:Array(UInt32)} AND toString(tuple({column})) != toString(tuple({default}))
