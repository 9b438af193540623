CREATE TABLE IF NOT EXISTS adx.other ENGINE = Distributed(wide, adx, other)
