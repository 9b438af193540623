"""Loads units: from the lake into ClickHouse, by a temporary table and a ledger. protocol.py first."""
