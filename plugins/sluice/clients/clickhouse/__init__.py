"""ClickHouse: the client, quoting, types, and the shapes of tables."""
