-- The second pass, only when rows are missing: those with a value that does not fit, and which column it is.
INSERT INTO {rejected_rows}
    (target, slice, cluster, topic, partition, offset, timestamp, type, column, reason, value, payload, row)
SETTINGS max_block_size = {block}
SELECT
    {target:String}, _slice, _cluster, _topic, _partition, _offset, _timestamp, _type,
    {column} AS column,
    {reason} AS reason,
    ifNull({value}, '') AS value,
    _payload,
    _row
FROM
(
    {rows}
)
