-- Writes parts without the rows that were deleted in them, on every replica.
ALTER TABLE {table} APPLY DELETED MASK
SETTINGS mutations_sync = 2
