"""Lineage events, by the OpenLineage specification and its own client. Only `open_client` imports
that client, an extra that takes a quarter of a second: where nothing is configured, it is not imported."""
