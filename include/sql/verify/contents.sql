-- Rows of each unit, and sums of two hashes over them: the same for the same rows in any order.
SELECT
    toUnixTimestamp({slice}),
    toString({cluster}),
    {count}({row}),
    {sum}(cityHash64({row})),
    {sum}(sipHash64({row})),
    CAST([{columns}], 'Array(UInt64)')
FROM {table}
{prewhere}
WHERE {slice} IN (SELECT slice FROM {fence}) AND ({slice}, {cluster}) IN (SELECT slice, cluster FROM {fence})
    AND ({kept})
GROUP BY {slice}, {cluster}
