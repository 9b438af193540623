-- Misfits of these slices of a table, by the column that refused them.
SELECT column, count()
FROM sluice.rejected
WHERE target = {target:String} AND toUnixTimestamp(slice) IN {slices:Array(UInt32)}
GROUP BY column
ORDER BY column
