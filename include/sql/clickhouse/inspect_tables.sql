-- Tables and views: what each is, its columns, and what gets the rows of every INSERT into it, whether or not the user
-- may see that. It gives more than was asked for where one of the names is in several of the databases.
SELECT
    found.database,
    found.name,
    found.engine,
    found.engine_full,
    toString(found.uuid),
    found.partition_key,
    found.sorting_key,
    found.create_table_query,
    found.as_select,
    arraySort(arrayZip(found.dependencies_database, found.dependencies_table)),
    listed.columns,
    (found.database, found.name) IN (
        SELECT database, table
        FROM system.projections
        WHERE database IN {databases:Array(String)} AND table IN {names:Array(String)}
    )
FROM system.tables AS found
LEFT JOIN (
    SELECT
        database,
        table AS name,
        arraySort(groupArray((position, columns.name, type, default_kind, default_expression))) AS columns
    FROM system.columns
    WHERE database IN {databases:Array(String)} AND table IN {names:Array(String)}
    GROUP BY database, table
) AS listed ON found.database = listed.database AND found.name = listed.name
WHERE found.database IN {databases:Array(String)} AND found.name IN {names:Array(String)}
