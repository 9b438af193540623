-- Rows that a table has of one slice now, of all clusters.
SELECT count() FROM {table} WHERE _slice = toDateTime({slice:UInt32}, 'UTC')
