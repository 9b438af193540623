-- What the server itself has met of these errors in the last seconds; counts are since its start.
SELECT code, name, value, last_error_message
FROM system.errors
WHERE code IN {codes:Array(Int32)} AND NOT remote AND last_error_time > now() - {seconds:UInt32}
ORDER BY code
