SELECT toString(topic) AS name, partition, offset, {row}
FROM sluice.rejected
WHERE target = {target:String}
    AND slice = toDateTime({slice:UInt32}, 'UTC') AND cluster = {cluster:String}
