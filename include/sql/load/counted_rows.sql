SELECT toUnixTimestamp(slice), cluster, sum({rows})
FROM {counted}
GROUP BY slice, cluster
