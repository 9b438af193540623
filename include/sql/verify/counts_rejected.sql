-- The same of the rows of counts that did not fit their table.
SELECT
    toUnixTimestamp(slice),
    toString(cluster),
    JSONExtractString(payload, 'type') AS kind,
    sum(JSONExtractUInt(payload, 'count'))
FROM sluice.rejected
WHERE target = {target:String}
    AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
GROUP BY slice, cluster, kind
