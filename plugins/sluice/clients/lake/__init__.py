"""The lake: a folder or a bucket, with conditional writes."""
