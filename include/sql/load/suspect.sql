SELECT toUnixTimestamp(_slice), _cluster, _topic, _partition, _offset, _row
FROM {suspects}
WHERE _number = {number}
