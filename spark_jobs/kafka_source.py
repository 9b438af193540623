"""The options with which Spark's Kafka source reads exactly one run."""

from __future__ import annotations

import json

from sluice.kafka.settings import settings_of
from sluice.landing.reads import Run
from sluice.pipeline import Pipeline

# A poll brings what fits: few round trips for small records, bounded memory for large ones.
_CONSUMER = {
    "kafka.max.poll.records": "20000",
    "kafka.fetch.max.bytes": str(32 << 20),
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
    "kafkaConsumer.pollTimeoutMs": "60000",
}


def read_options(pipeline: Pipeline, run: Run) -> dict[str, str]:
    """`assign` with explicit offsets, divided into pieces of at most `rows_per_read` offsets.

    Source: Spark 4.2, "Structured Streaming + Kafka Integration Guide", batch queries.
    """
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), edges in run.edges().items():
        if edges[0] < edges[-1]:
            starts.setdefault(topic, {})[str(partition)] = int(edges[0])
            ends.setdefault(topic, {})[str(partition)] = int(edges[-1])
    assigned = {topic: [int(partition) for partition in found] for topic, found in starts.items()}
    return {
        **_CONSUMER,
        **settings_of(pipeline.cluster(run.cluster)).for_spark(),
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(pipeline.rows_per_read),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "groupIdPrefix": "sluice",
    }
