-- One row: the user of the connection.
SELECT currentUser()
