-- How the server reads a check, with the aliases that it gives. Other brackets than those of the load: one that ends
-- before its own end is no expression here.
SELECT explain
FROM (
    EXPLAIN AST SELECT [{condition}
    ]
)
