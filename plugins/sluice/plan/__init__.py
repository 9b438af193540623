"""What a run has to do, how long it takes, and how far it is."""
