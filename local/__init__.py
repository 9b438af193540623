"""The embedded stack: a real Kafka broker, ClickHouse and Airflow on this machine, without Docker."""
