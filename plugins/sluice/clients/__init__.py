"""One adapter for each outside system; none knows another."""
