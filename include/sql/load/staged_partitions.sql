SELECT DISTINCT partition_id
FROM system.parts
WHERE database = 'sluice' AND table = {name:String} AND active
ORDER BY partition_id
