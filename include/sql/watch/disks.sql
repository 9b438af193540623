-- Free and total bytes of the server's own disks.
SELECT name, unreserved_space, total_space
FROM system.disks
WHERE type = 'Local'
ORDER BY name
