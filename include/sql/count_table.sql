SELECT count()
FROM {table}
