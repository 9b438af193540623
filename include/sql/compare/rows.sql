-- The rows of one table between two instants. No name of theirs begins as the names here do.
SELECT toStartOfHour({time}, 'UTC') AS {own}hour, {type} AS {own}type, sipHash128({key}) AS {own}key,
    {side} AS {own}side, cityHash64({values}) AS {own}hash
FROM {table}
WHERE {time} >= toDateTime({start:UInt32}, 'UTC') AND {time} < toDateTime({end:UInt32}, 'UTC')
