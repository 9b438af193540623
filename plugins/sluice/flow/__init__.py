"""The five steps, and the order in which a run takes them."""
