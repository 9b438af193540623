"""Lands units: from Kafka into the lake. land.py first; task/ is what runs in Spark's tasks."""
