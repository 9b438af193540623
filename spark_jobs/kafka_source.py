"""Reads exactly one run through Spark's Kafka source."""

from __future__ import annotations

import json

import odd_stamps
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # Spark's bridge has no types
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.kafka.settings import settings_of
from sluice.config.pipeline import Pipeline
from sluice.flow.land.read_plan import ReadGroup

# A poll brings what fits: few round trips for small records, bounded memory for large ones.
_CONSUMER = {
    "kafka.max.poll.records": "20000",
    "kafka.fetch.max.bytes": str(32 << 20),
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafkaConsumer.pollTimeoutMs": "60000",
}


_NO_ROOM = "java.lang.OutOfMemoryError"
# No token, one that is no JWT, or an executor whose Java options do not allow the endpoint.
_NO_LOGIN = ("LoginException", "SaslAuthenticationException", "oauthbearer.allowed.urls")

# What the source calls the RDD that it reads with: Spark 4.2, KafkaRelation.buildScan.
_SOURCE = "kafka"


def records(session: SparkSession, pipeline: Pipeline, run: ReadGroup) -> DataFrame:
    """Returns the records of `run`, with the columns of Spark's Kafka source."""
    return straight(session.read.format("kafka").options(**read_options(pipeline, run)).load())


def straight(frame: DataFrame) -> DataFrame:
    """Returns `frame`, a batch read of Kafka, without the detour that Spark takes with each record.

    The source makes rows in Spark's own form, which the interface of batch sources (`TableScan`, of
    `RDD[Row]`) turns into Java objects and back: more than a third of what the JVM does in a read. So the
    source is asked for its RDD, and of its ancestors the one before that detour becomes a frame. Where
    another Spark has no such RDD, the answer is `frame`.
    """
    session = frame.sparkSession
    try:
        rdd = frame._jdf.queryExecution().analyzed().relation().buildScan()
        while rdd.name() != _SOURCE:
            if rdd.dependencies().isEmpty():
                return frame
            rdd = rdd.dependencies().head().rdd()
        java_frame = session._jsparkSession.internalCreateDataFrame(rdd, frame._jdf.schema(), False)
    except Py4JJavaError:  # of the source itself, which has asked Kafka
        raise
    except Py4JError:  # one of these methods is not there
        return frame
    return DataFrame(java_frame, session)


def not_handed_over(error: BaseException) -> str | None:
    """Returns what stopped Spark, where a task's own reader goes on; None for another error."""
    if odd_stamps.stopped(error):
        return "Spark cannot hand over the timestamps of some records"
    if _NO_ROOM in str(error):
        return "some records need more memory than Spark has, decompressed"
    if any(name in str(error) for name in _NO_LOGIN):
        return "Spark's client cannot log in, and brings no records"
    return None


def read_options(pipeline: Pipeline, run: ReadGroup) -> dict[str, str]:
    """Returns `assign` with explicit offsets, divided into pieces of at most `rows_per_task` offsets.

    Source: Spark 4.2, "Structured Streaming + Kafka Integration Guide", batch queries.
    """
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), edges in run.edges().items():
        if edges[0] < edges[-1]:
            starts.setdefault(topic, {})[str(partition)] = int(edges[0])
            ends.setdefault(topic, {})[str(partition)] = int(edges[-1])
    assigned = {topic: [int(partition) for partition in partitions] for topic, partitions in starts.items()}
    return {
        **_CONSUMER,
        **settings_of(pipeline.cluster(run.cluster)).for_spark(),
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(pipeline.rows_per_task),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "groupIdPrefix": "sluice",
    }
