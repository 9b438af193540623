-- The database of everything that Sluice itself keeps in ClickHouse.
CREATE DATABASE IF NOT EXISTS sluice ENGINE = Atomic
