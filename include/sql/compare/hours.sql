-- What two tables hold of the same keys, by hour and type.
SELECT toUnixTimestamp(hour), type, sum(ours), sum(theirs),
    sum(least(ours, theirs)) - sumIf(ours, ours = theirs AND our_values != their_values),
    sumIf(ours - theirs, ours > theirs), sumIf(theirs, ours = 0), sumIf(theirs - ours, ours > 0 AND theirs > ours),
    sumIf(ours, ours = theirs AND our_values != their_values)
FROM ({keys})
GROUP BY hour, type
ORDER BY hour, type
