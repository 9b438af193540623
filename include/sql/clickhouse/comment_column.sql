-- Says something else of a column; its rows are not touched.
ALTER TABLE {table} COMMENT COLUMN {column} {comment}
