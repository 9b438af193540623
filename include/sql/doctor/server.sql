-- One row: the version, the user, and whether its profile lets it write (0).
SELECT version(), currentUser(), (SELECT any(value) FROM system.settings WHERE name = 'readonly')
