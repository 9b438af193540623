-- What the rows of some keys hold in one table.
SELECT hex(sipHash128({key})) AS {own}key, {names}, {values}
FROM {table}
WHERE {time} >= toDateTime({start:UInt32}, 'UTC') AND {time} < toDateTime({end:UInt32}, 'UTC')
    AND {own}key IN {keys:Array(String)}
LIMIT 1 BY {own}key
