-- A SELECT as the server has parsed it, node by node.
SELECT explain FROM (EXPLAIN AST {select})
