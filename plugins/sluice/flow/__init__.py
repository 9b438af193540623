"""Traffic counts: how many rows landed, by type, event hour and any fields. tally.py first, then total.py."""
