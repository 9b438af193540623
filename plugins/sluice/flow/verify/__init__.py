"""Checks what has to hold. anomaly.py first, then audit.py: read_*.py reads, check_*.py judges."""
