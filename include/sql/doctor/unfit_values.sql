-- Sample events through the load's own casts: rows that would be rejected, and of each check how many, and of one
-- its place, the type there, the reason and the value.
SELECT countIf({unfit}), [{counts}], [{places}], [{kinds}], [{reasons}], [{values}]
FROM
(
    {rows}
)
