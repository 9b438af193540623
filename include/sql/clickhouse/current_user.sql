-- The user of the connection, to whom a right is granted.
SELECT currentUser()
