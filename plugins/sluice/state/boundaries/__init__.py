"""Where in each partition of a topic one slice ends and the next begins."""
