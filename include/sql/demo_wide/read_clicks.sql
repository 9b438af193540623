CREATE TABLE IF NOT EXISTS adx.clicks ENGINE = Distributed(wide, adx, clicks)
