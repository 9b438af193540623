-- Of some rows, how many there are, and how many fit the table's columns as they are now.
SELECT count(), countIf(NOT ({misfit}))
FROM
(
    {rows}
)
