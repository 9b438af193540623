"""What has to hold, and what is said when it does not: anomaly.py first, then audit.py."""
