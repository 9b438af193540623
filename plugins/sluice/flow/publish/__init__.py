"""Publishes complete slices and event hours."""
