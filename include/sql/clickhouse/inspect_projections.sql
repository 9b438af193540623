SELECT count()
FROM system.projections
WHERE database = {database:String} AND table = {name:String}
