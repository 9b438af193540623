"""What was rejected, and bringing it in after a fix."""
