-- Statements of a target's attempts that run.
SELECT DISTINCT query_id
FROM {processes}
WHERE startsWith(query_id, {prefix:String})
ORDER BY query_id
