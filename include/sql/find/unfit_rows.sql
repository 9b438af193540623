-- How many of a record's rows one table did not take.
SELECT uniqExact(row)
FROM sluice.rejected
WHERE target IN {targets:Array(String)} AND pipeline = {pipeline:String} AND slice = toDateTime({slice:UInt32}, 'UTC') AND cluster = {cluster:String}
    AND topic = {topic:String} AND partition = {partition:Int32} AND offset = {offset:Int64}
