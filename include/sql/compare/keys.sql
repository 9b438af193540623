-- Each key of an hour: how many rows the tables have of it, and the sums of their values' hashes.
SELECT {own}hour AS hour, {own}type AS type, {own}key AS key, countIf({own}side = 0) AS ours,
    countIf({own}side = 1) AS theirs, sumIf({own}hash, {own}side = 0) AS our_values,
    sumIf({own}hash, {own}side = 1) AS their_values
FROM ({rows})
GROUP BY hour, type, key
