-- The databases that the user may see.
SELECT name
FROM system.databases
