-- Parts of this table can be attached to the target: same columns, indices, keys and settings.
CREATE TABLE {staging} AS {target} ENGINE = {engine}
