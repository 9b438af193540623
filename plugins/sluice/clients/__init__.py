"""One adapter per outside system."""
