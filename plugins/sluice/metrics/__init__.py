"""The table of metrics, and where samples go."""
