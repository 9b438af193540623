SELECT value
FROM system.settings
WHERE name = {name:String}
