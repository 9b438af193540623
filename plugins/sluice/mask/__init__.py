"""What a `mask:` of the pipeline file does to an event's bytes. Pure, but for the keys of connections."""
