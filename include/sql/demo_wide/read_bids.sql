CREATE TABLE IF NOT EXISTS adx.bids ENGINE = Distributed(wide, adx, bids)
