-- The rows of which a value does not fit: what is said of them is asked of them alone.
SELECT *
FROM ({rows})
WHERE {unfit}
