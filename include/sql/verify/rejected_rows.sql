SELECT toUnixTimestamp(slice), toString(cluster), toString(type) AS name, count()
FROM sluice.rejected
WHERE target = {target:String}
    AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY slice, cluster, name
