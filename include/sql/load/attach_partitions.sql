-- Hard links, no copy. It reads the staging table, which only this attempt has: with it gone this fails.
ALTER TABLE {target} {partitions}
