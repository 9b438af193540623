-- A view's SELECT, and when its definition last changed.
SELECT as_select, toUnixTimestamp(metadata_modification_time)
FROM system.tables
WHERE database = {database:String} AND name = {name:String}
