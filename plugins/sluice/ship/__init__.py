"""Log shipping: lines of files, folders, S3 objects and growing logs become records, and nothing is lost."""
