-- Names of functions that give the same for the same arguments, in the spelling that was asked for.
SELECT asked
FROM (SELECT arrayJoin({names:Array(String)}) AS asked)
WHERE lower(asked) IN (
    SELECT lower(name)
    FROM system.functions
    WHERE {deterministic} = 1 AND (case_insensitive OR name IN {names:Array(String)})
)
