"""Kafka: look-ups, reads, batches as they are stored, and the producer."""
