-- When each unit of a table was last committed.
SELECT toUnixTimestamp(slice), toString(cluster), toUnixTimestamp(max(at))
FROM sluice.ledger
WHERE target = {target:String} AND table_uuid = {uuid:UUID} AND state = 'committed'
GROUP BY slice, cluster
