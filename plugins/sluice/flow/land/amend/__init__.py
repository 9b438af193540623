"""The next generation of a unit, made of its own files: what is not meant stays row for row as it was."""
