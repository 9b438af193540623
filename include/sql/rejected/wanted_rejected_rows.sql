-- The condition on rejected rows: of one table, column and reason, of some units; with an empty type of every type.
target = {target} AND pipeline = {pipeline} AND reason = {reason}
    AND replaceRegexpAll(column, '\\[([0-9]+|"([^"\\\\]|\\\\.)*")\\]', '[]') = {place}
    AND ({type} = '' OR type = {type})
    AND slice >= toDateTime({first}, 'UTC') AND slice <= toDateTime({last}, 'UTC')
    AND (toUnixTimestamp(slice), cluster) IN ({units})
