"""ClickHouse: the client, quoting, types, and what tables look like."""
