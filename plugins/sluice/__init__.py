"""Sluice moves events from Kafka into a data lake and ClickHouse, an hour at a time, exactly once.

The contract between the parts is docs/design/. No Airflow import outside `sluice.airflow`, no Spark
import outside spark_jobs/, and each client (Kafka, S3, ClickHouse) only inside its adapter.
"""

__version__ = "0.1.0"
