DESCRIBE (SELECT {place} AS place FROM {table})
