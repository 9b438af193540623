-- As delete_rows, for a mutation that other replicas carry out too: they have no fence table. The server that
-- takes the statement reads the fence, and writes the units into the mutation; its marker names the fence.
DELETE FROM {table}
WHERE (_slice, _cluster) IN ({units}) AND notEmpty({marker}) AND (SELECT count() FROM {fence}) > 0
