-- Some misfits of a table, column and reason, of some units, as rows of the lake; keys are not kept.
SELECT {columns}, _slice
FROM
(
    SELECT
        type AS _type,
        cluster AS _cluster,
        topic AS _topic,
        partition AS _partition,
        offset AS _offset,
        row AS _row,
        timestamp AS _timestamp,
        CAST(NULL, 'Nullable(String)') AS _key,
        payload AS _payload,
        slice AS _slice
    FROM sluice.rejected
    WHERE target = {target:String} AND pipeline = {pipeline:String} AND reason = {reason:String}
        AND replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') = {place:String}
        AND slice >= toDateTime({start:UInt32}, 'UTC') AND slice < toDateTime({end:UInt32}, 'UTC')
        AND (toUnixTimestamp(slice), cluster) IN (
            SELECT tupleElement(unit, 1), tupleElement(unit, 2)
            FROM (SELECT arrayJoin(arrayZip({starts:Array(UInt32)}, {clusters:Array(String)})) AS unit)
        )
    LIMIT {each:UInt32} BY slice
    LIMIT {most:UInt32}
)
