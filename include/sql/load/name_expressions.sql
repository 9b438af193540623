-- Expressions over what the SELECT inside names. One SELECT for all of them would write a name's expression out
-- wherever it is used: with 1,000 columns the server would be busy for minutes before it reads a row.
SELECT *, {named}
FROM ({rows})
