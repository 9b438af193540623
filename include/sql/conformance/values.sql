-- Contents, not counts.
SELECT {values}
FROM {table}
WHERE {condition}
ORDER BY ALL
