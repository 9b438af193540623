-- Whether the server has it, and shows it to this user.
SELECT count() FROM system.databases WHERE name = {database:String}
