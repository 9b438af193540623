"""`sluice init`: from a sample of events to a pipeline file and its tables."""
