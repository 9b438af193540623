-- Identifies a server, whatever the connection that leads to it is called.
SELECT toString(serverUUID())
