"""Columns for fields that no column takes: which fields, of which type, and the ALTER TABLE."""
