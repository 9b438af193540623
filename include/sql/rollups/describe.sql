-- The columns that a rollup's SELECT gives, their types as system.columns writes them.
DESCRIBE TABLE (
{select}
)
