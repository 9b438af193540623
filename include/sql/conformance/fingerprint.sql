SELECT count(), uniqExact(n), sum(n)
FROM {table}
