"""Lineage events, by the OpenLineage specification and its own client. Only `run_events` and `open_client`
import that client, which takes half a second: where nothing is configured, they are not imported."""
