-- Rows of each unit put together by their key, as merges do: how many there are and sums of two hashes over
-- them; and sums of floating point numbers with those of their absolute values.
SELECT
    {own}start,
    {own}cluster,
    concat(
        toString(countIf({own}present)), ' ',
        toString(sumWithOverflowIf(cityHash64({own}key, {own}values), {own}present)), ' ',
        toString(sumWithOverflowIf(sipHash64({own}key, {own}values), {own}present))
    ),
    sumForEach({own}numbers),
    sumForEach({own}scales)
FROM
(
    SELECT
        {own}start,
        {own}cluster,
        {own}key,
        {values} AS {own}values,
        ({present}) AS {own}present,
        CAST([{numbers}], 'Array(Float64)') AS {own}numbers,
        CAST([{scales}], 'Array(Float64)') AS {own}scales
    FROM
    (
        SELECT
            *,
            toUnixTimestamp(_slice) AS {own}start,
            toString(_cluster) AS {own}cluster,
            sipHash128({key}) AS {own}key
        FROM {table}
        WHERE _slice IN (SELECT slice FROM {fence}) AND (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
    )
    GROUP BY {own}start, {own}cluster, {own}key
)
GROUP BY {own}start, {own}cluster
