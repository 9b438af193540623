-- What reads other tables' rows, or writes to them, and whose definition holds one of the texts or a pattern; with the
-- views that an INSERT into it feeds.
SELECT
    database,
    name,
    engine,
    multiIf(engine_full != '', engine_full, as_select != '', as_select, create_table_query),
    arrayMap((place, view) -> concat(place, '.', view), dependencies_database, dependencies_table)
FROM system.tables
WHERE engine IN ('Distributed', 'Remote', 'RemoteSecure', 'Buffer', 'Merge', 'Alias', 'Loop', 'Proxy', 'View')
    AND (
        engine = 'Merge'
        OR arrayExists(text -> position(concat(engine_full, as_select, create_table_query), text) > 0, {texts:Array(String)})
    )
ORDER BY database, name
