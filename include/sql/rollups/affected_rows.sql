-- Committed rows of the keys that the units have now, or had when the table was filled.
({key}) IN (
    SELECT {key} FROM {log} WHERE {own}
    UNION ALL
    SELECT {key} FROM {target} WHERE {own}
)
AND {committed}
