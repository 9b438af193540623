"""From the values of a field to a column's type, and why. Pure: nothing here asks a server."""
