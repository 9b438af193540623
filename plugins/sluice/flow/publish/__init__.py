"""Publishes what is complete."""
