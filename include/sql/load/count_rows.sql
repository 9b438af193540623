SELECT toUnixTimestamp(slice), cluster, rows
FROM ({rows_by_unit})
