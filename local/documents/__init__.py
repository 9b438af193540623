"""Makes documents, and the site of all of them (docs/, README.md and its neighbours)."""
