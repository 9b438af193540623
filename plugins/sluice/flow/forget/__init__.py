"""Forgets files of the lake on purpose, as `keep` in the pipeline file says."""
