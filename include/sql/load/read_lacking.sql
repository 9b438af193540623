SELECT toUnixTimestamp(slice), cluster, defaulted
FROM ({lacking})
