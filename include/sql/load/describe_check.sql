-- The type of a check's condition. A WHERE has no aggregates: it is of one row.
DESCRIBE (SELECT {condition} AS passes FROM {table} WHERE {condition})
