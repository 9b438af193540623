"""Resolves hours into offsets."""
