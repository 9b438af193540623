"""Takes a person's records out of lake and tables: the list, the search, the filter, the receipt."""
