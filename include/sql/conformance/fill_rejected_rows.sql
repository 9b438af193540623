INSERT INTO {rejected_rows} (target, slice, cluster, offset)
SELECT {target:String}, toDateTime({start:UInt32} + 3600 * number, 'UTC'), {cluster:String}, {first:UInt64} + number
FROM numbers({units:UInt64})
