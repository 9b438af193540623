-- A table of the attempt's own to try a statement on, before it changes what stays.
CREATE TABLE {rehearsed} AS {like}
