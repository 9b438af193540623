CREATE TABLE IF NOT EXISTS adx.impressions ENGINE = Distributed(wide, adx, impressions)
