"""The job that people write by hand, for comparison: what a landing costs beyond it, and what it lacks.

It reads by timestamps (resolved late, in the tasks), writes the lake's columns into type/date/hour folders
(what it cannot parse into those of null) and overwrites the folders that it met: a late event of another hour
erases that hour's files. It checks no counts, and a text that is no JSON behind its type and time passes for
an event.
"""

from __future__ import annotations

from pyspark.sql import SparkSession, functions

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.slices import SliceRange, to_ms

SCHEMA = "type STRING, timestamp TIMESTAMP"
KEPT = ("topic", "partition", "offset", "timestamp", "key", "headers")


def run(session: SparkSession, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> int:
    """Rows in the lake afterwards."""
    (cluster,) = pipeline.kafka
    place = lake.url.removeprefix("file://") + "/plain"
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": ",".join(cluster.topics),
        "startingTimestamp": str(to_ms(slices.start)),
        "includeHeaders": "true",
    }
    rows = (
        session.read.format("kafka")
        .options(**options)
        .load()
        .where(functions.col("timestamp") < functions.lit(slices.end.isoformat()).cast("timestamp"))
        .withColumn("event", functions.from_json(functions.col("value").cast("string"), SCHEMA))
        .select(
            functions.col("value").cast("string").alias("_payload"),
            functions.lit(cluster.cluster).alias("_cluster"),
            *(functions.col(name).alias(f"_{name}") for name in KEPT),
            functions.col("event.type").alias("type"),
            functions.to_date("event.timestamp").alias("date"),
            functions.hour("event.timestamp").alias("hour"),
        )
    )
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.option("compression", "zstd").partitionBy("type", "date", "hour").parquet(place)
    return session.read.parquet(place).count()
