"""The erasure list: who is left out of the lake, and of everything that is made out of it."""
