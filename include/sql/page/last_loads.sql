-- When these tables were last loaded with hours of this lake and range, in seconds since the epoch.
SELECT target, toUnixTimestamp(max(at))
FROM sluice.ledger
WHERE target IN {tables:Array(String)}
    AND pipeline = {pipeline:String}
    AND lake = {lake:String}
    AND slice >= toDateTime({start:UInt32}, 'UTC')
    AND slice < toDateTime({end:UInt32}, 'UTC')
    AND state = 'committed'
GROUP BY target
