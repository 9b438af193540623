-- Does with staged rows what a view of the target does with inserted ones, in the server's own way.
CREATE MATERIALIZED VIEW {view} TO {staging} AS
{select}
