"""The pipeline file: models, types, reading and validation."""
