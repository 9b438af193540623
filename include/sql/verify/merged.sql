-- Rows of each unit put together by their key, as merges do: how many there are and sums of two hashes over
-- them; and sums of floating point numbers with those of their absolute values.
SELECT
    sluice_start,
    sluice_cluster,
    concat(
        toString(countIf(sluice_present)), ' ',
        toString(sumWithOverflowIf(cityHash64(sluice_key, sluice_values), sluice_present)), ' ',
        toString(sumWithOverflowIf(sipHash64(sluice_key, sluice_values), sluice_present))
    ),
    sumForEach(sluice_numbers),
    sumForEach(sluice_scales)
FROM
(
    SELECT
        sluice_start,
        sluice_cluster,
        sluice_key,
        {values} AS sluice_values,
        ({present}) AS sluice_present,
        CAST([{numbers}], 'Array(Float64)') AS sluice_numbers,
        CAST([{scales}], 'Array(Float64)') AS sluice_scales
    FROM
    (
        SELECT
            *,
            toUnixTimestamp(_slice) AS sluice_start,
            toString(_cluster) AS sluice_cluster,
            sipHash128({key}) AS sluice_key
        FROM {table}
        WHERE _slice IN (SELECT slice FROM {fence}) AND (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
    )
    GROUP BY sluice_start, sluice_cluster, sluice_key
)
GROUP BY sluice_start, sluice_cluster
