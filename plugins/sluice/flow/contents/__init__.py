"""Compares what lake and tables say with what it was made from, row by row."""
