-- Distinct values that one column of a table has rejected for one reason, in a range of slices.
SELECT DISTINCT value
FROM sluice.rejected
WHERE target IN {targets:Array(String)} AND pipeline = {pipeline:String}
    AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
    AND column = {column:String} AND reason = {reason:String}
LIMIT {most:UInt64}
