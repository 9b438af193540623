CREATE MATERIALIZED VIEW {view} TO {staging} AS
SELECT {columns}
FROM {entry}
WHERE {own}
