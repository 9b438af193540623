-- A view's SELECT as the server understands it, names resolved and nothing optimized.
EXPLAIN QUERY TREE passes = 1
{select}
