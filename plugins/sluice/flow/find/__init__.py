"""Says of a record where it is: its slice, its rows in the lake, and what each table has of it."""
