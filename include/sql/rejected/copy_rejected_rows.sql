-- Some of the rejected rows that are wanted, as rows of the lake; keys and headers are not kept.
INSERT INTO {copy} ({columns})
SELECT
    type AS _type,
    cluster AS _cluster,
    topic AS _topic,
    partition AS _partition,
    offset AS _offset,
    row AS _row,
    timestamp AS _timestamp,
    CAST(NULL, 'Nullable(String)') AS _key,
    CAST([], 'Array(Tuple(key String, value Nullable(String)))') AS _headers,
    payload AS _payload,
    slice AS _slice
FROM sluice.rejected
WHERE {wanted}
LIMIT {each} BY slice
LIMIT {most}
