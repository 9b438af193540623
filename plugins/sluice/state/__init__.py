"""What is known of a pipeline in few objects, kept by the steps for whoever shows a year at once."""
