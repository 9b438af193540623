-- Unfinished mutations of sluice.rejected, each with the fence table that it reads.
SELECT mutation_id, extract(command, 'FROM sluice\\.`?(fence_[0-9a-f]+_[0-9]+_[0-9]+)') AS fence
FROM system.mutations
WHERE database = 'sluice' AND table = 'rejected' AND NOT is_done AND notEmpty(fence)
