-- Sample events through the load's own casts: rows that would be rejected, and of each check how many and one value.
SELECT countIf({misfit}), [{counts}], [{values}]
FROM
(
    {rows}
)
