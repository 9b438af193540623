-- How many rows a table has of one record.
SELECT count()
FROM {table}
WHERE _slice = toDateTime({slice:UInt32}, 'UTC') AND _cluster = {cluster:String}
    AND _topic = {topic:String} AND _partition = {partition:Int32} AND _offset = {offset:Int64}
