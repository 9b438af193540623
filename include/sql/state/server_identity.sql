-- One server's one table: tables made ON CLUSTER have the same UUID everywhere, servers started alike the same name.
SELECT toString(serverUUID()), hostName(), toString(uuid), engine
FROM system.tables
WHERE database = {database:String} AND name = {name:String}
