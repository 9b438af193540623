-- Some keys of each kind of difference.
SELECT multiIf(ours = theirs AND our_values = their_values, 'same', ours = theirs, 'different', theirs = 0 OR ours > theirs, 'missing',
        ours = 0, 'extra', 'doubled') AS kind,
    toUnixTimestamp(hour), type, hex(key), ours, theirs
FROM ({keys})
WHERE kind IN {kinds:Array(String)}
ORDER BY hour, type, key
LIMIT {most:UInt32} BY kind
