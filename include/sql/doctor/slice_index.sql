-- How many of the target's skipping indexes have `_slice`.
SELECT count()
FROM system.data_skipping_indices
WHERE database = {database:String} AND table = {name:String} AND position(expr, '_slice') > 0
