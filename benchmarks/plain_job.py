"""The job that people write by hand, for comparison: what a landing costs beyond it, and what it lacks.

It reads by timestamps (resolved late, in the tasks), trusts every event, writes type/date/hour folders and
overwrites those that it met: a late event of another hour erases that hour's files.
"""

from __future__ import annotations

from pyspark.sql import SparkSession, functions

from sluice.lake.base import Lake
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange, to_ms

SCHEMA = "type STRING, timestamp TIMESTAMP"


def run(session: SparkSession, pipeline: Pipeline, lake: Lake, slices: SliceRange) -> int:
    """Rows in the lake afterwards."""
    (cluster,) = pipeline.kafka
    place = lake.url.removeprefix("file://") + "/plain"
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": ",".join(cluster.topics),
        "startingTimestamp": str(to_ms(slices.start)),
    }
    event = functions.from_json(functions.col("value").cast("string"), SCHEMA)
    rows = (
        session.read.format("kafka")
        .options(**options)
        .load()
        .where(functions.col("timestamp") < functions.lit(slices.end.isoformat()).cast("timestamp"))
        .select(functions.col("value").cast("string").alias("_payload"), event.alias("event"))
        .select(
            "_payload",
            functions.col("event.type").alias("type"),
            functions.to_date("event.timestamp").alias("date"),
            functions.hour("event.timestamp").alias("hour"),
        )
    )
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    writer.option("compression", "zstd").partitionBy("type", "date", "hour").parquet(place)
    return session.read.parquet(place).count()
