-- The yardstick of the load: the same rows, typed already, from Parquet into the same table.
INSERT INTO bench_load.baseline
SELECT timestamp, id, user_id, price, country, width, ok, url, toDateTime('2026-11-20 10:00:00', 'UTC'), 'dc1'
FROM file({files:String}, 'Parquet')
