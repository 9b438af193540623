SELECT max(generation)
FROM sluice.ledger
WHERE target = {target:String}
