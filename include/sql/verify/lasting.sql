-- The slices whose rows have not expired by any of the table's TTLs; a TTL of 0 is never over. A TTL that reads
-- another column than these two is an unknown identifier here.
SELECT toUnixTimestamp(_slice), toString(_cluster)
FROM
(
    SELECT CAST(toDateTime(pair.1, 'UTC') AS {slice}) AS _slice, CAST(pair.2 AS {cluster}) AS _cluster
    FROM
    (
        SELECT arrayJoin(arrayZip({starts:Array(UInt32)}, {clusters:Array(String)})) AS pair
    )
)
WHERE NOT arrayExists(expiry -> expiry != 0 AND expiry <= toUnixTimestamp(now()), [{expiries}])
