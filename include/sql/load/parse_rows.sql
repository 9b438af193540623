-- The lake's rows that go to the target.
SELECT {columns}
FROM ({source})
WHERE {routed}
