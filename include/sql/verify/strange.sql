-- Rows of each unit that are none of those in another table.
SELECT toUnixTimestamp(_slice), toString(_cluster), count()
FROM {table}
WHERE _slice IN (SELECT slice FROM {fence}) AND (_slice, _cluster) IN (SELECT slice, cluster FROM {fence})
    AND sipHash128({row}) NOT IN (SELECT sipHash128({row}) FROM {staged})
GROUP BY _slice, _cluster
