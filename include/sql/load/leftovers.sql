-- Fence tables first: once its fence is gone, no statement of an earlier attempt can begin to write.
SELECT DISTINCT name
FROM {tables}
WHERE database = {database:String} AND (startsWith(name, {fences:String}) OR startsWith(name, {stagings:String}))
ORDER BY name
