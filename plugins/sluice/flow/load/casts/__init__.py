"""Casts of event fields into columns, exactly or not at all."""
