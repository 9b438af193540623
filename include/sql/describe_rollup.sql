-- The columns that a rollup's SELECT gives.
DESCRIBE TABLE (
{select}
)
