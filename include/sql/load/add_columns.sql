-- Columns of new fields. A replicated table hands it on to its other replicas. That a column is there already is no
-- error: an attempt that died may have added it.
ALTER TABLE {table} {columns}
