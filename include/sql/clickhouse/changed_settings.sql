-- What the user's profile, or the server's configuration, has set to another value than the server's own default.
SELECT name, value, default, readonly
FROM system.settings
WHERE value != default AND NOT is_obsolete AND alias_for = ''
