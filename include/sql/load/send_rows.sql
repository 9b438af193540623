INSERT INTO {sent} ({columns}, _slice)
FORMAT ArrowStream
