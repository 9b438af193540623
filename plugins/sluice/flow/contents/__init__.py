"""Compares contents row by row: the lake with its payloads, tables with what a load of the lake gives."""
