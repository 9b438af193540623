-- Sample events through the load's own casts: rows that would be rejected, and of each check how many and one value.
SELECT countIf({misfit}), [{counts}], [{values}]
FROM
(
    SELECT {named}
    FROM (SELECT {columns}, _slice FROM format('JSONEachRow', {structure}, {rows}))
)
