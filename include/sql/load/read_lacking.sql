SELECT toUnixTimestamp(slice), cluster, defaulted, failed
FROM ({lacking})
