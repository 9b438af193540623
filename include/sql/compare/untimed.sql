-- Rows without a time: they are in no hour.
SELECT countIf(isNull({time})) FROM {table}
