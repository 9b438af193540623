-- One row after the other for each unit: hours from `start` on.
INSERT INTO {staging} (n, _slice, _cluster)
SELECT {first:UInt64} + number, toDateTime({start:UInt32} + 3600 * (number % {units:UInt64}), 'UTC'), {cluster:String}
FROM numbers({rows:UInt64})
