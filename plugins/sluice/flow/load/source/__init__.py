"""Where a load reads from: the server pulls the files, or rows are pushed to it."""
