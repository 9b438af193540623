-- Rejected rows of these slices of a table, by the column that refused them: `items[].price`, whatever the item's number.
SELECT replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') AS place, count()
FROM sluice.rejected
WHERE target = {target:String} AND toUnixTimestamp(slice) IN {slices:Array(UInt32)}
GROUP BY place
ORDER BY place
