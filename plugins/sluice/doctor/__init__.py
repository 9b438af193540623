"""Is everything fit for this pipeline? Kafka, lake, Spark, ClickHouse and real events, a line for each."""
