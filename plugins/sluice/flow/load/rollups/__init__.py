"""Rollups: tables that a SELECT derives from a target, committed by the load's protocol. staging.py first."""
