-- Parts of this table can be attached to the one that it is like: same columns, indices, constraints, keys, settings.
CREATE TABLE {staging} AS {target} ENGINE = {engine}
