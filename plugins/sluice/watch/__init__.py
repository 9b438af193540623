"""What is wrong with a pipeline and has to be told to somebody: once, and once more when it is over."""
