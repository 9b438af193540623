-- The rules of the last load of each table that went by some, whatever UUID the table had then: the ledger outlives it.
SELECT target, argMax(rules, at)
FROM sluice.ledger
WHERE pipeline = {pipeline:String} AND lake = {lake:String} AND target IN {targets:Array(String)} AND rules != ''
GROUP BY target
