"""Pipeline files for the tests in this folder."""

from __future__ import annotations

TWO_TABLES = """\
kafka:
  - {cluster: dc1, bootstrap: "127.0.0.1:9092", topics: [bids, clicks]}
  - {cluster: dc2, connection: kafka_dc2, topics: [bids]}
event:
  type: {field: type}
  time: {field: timestamp}
lake: s3://events
lake_connection: lake_store
tables:
  click: ads.clicks
  bid: ads.bids
  "*": ads.bids
"""

NO_TABLES = """\
kafka:
  - {cluster: dc1, bootstrap: "127.0.0.1:9092", topics: [bids]}
event:
  type: {topic: true}
  time: {record: true}
lake: file:///lake
slice: 15m
"""

# `tables.click` is no database.table.
WRONG_TABLE = NO_TABLES + "tables: {click: clicks}\n"
