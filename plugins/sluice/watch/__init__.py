"""Finds problems while pipelines run, and notifies of each: once when it begins and once when it is over."""
