"""Every metric: its name, kind, unit, meaning and labels. docs/guide/metrics.md shows this table.

They go through Airflow's own metrics (StatsD or OpenTelemetry, `[metrics]` in its configuration), with
labels as tags. Outside Airflow they are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "sluice."
NAMES = frozenset({"cluster", "column", "disk", "pipeline", "table", "topic", "type"})
"""Labels whose values are names from outside; those of the others are words of Sluice's own."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class Metric:
    """`labels` are all of them, and every sample has each; a timer's samples are seconds."""

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    labels: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    @property
    def exported(self) -> str:
        """Its name in Prometheus, behind the StatsD exporter and monitoring/statsd-mapping.yaml."""
        return "sluice_" + self.name + ("_total" if self.kind is MetricKind.COUNTER else "")


def _metrics(kind: MetricKind, *rows: tuple[str, str, str, str]) -> tuple[Metric, ...]:
    return tuple(
        Metric(name, kind, unit, meaning, tuple(labels.split())) for name, unit, meaning, labels in rows
    )


COUNTERS = _metrics(
    MetricKind.COUNTER,
    # resolve
    (
        "boundaries_resolved",
        "boundaries",
        "Boundaries that were new: one for each instant, cluster and topic",
        "pipeline",
    ),
    ("future_records", "records", "Records stamped more than an hour ahead that a look-up met", "pipeline"),
    ("batches", "batches", "Batches that a run was cut into", "pipeline mode"),
    ("batch_slices", "slices", "Slices in those batches", "pipeline mode"),
    # land
    ("units_landed", "units", "(slice, cluster) pairs that were landed", "pipeline cluster"),
    ("units_relanded", "units", "Those of them that replaced an older generation", "pipeline cluster"),
    ("reads", "reads", "Spark input partitions that were planned for them", "pipeline cluster"),
    ("records_read", "records", "Records read from Kafka", "pipeline cluster"),
    (
        "records_parsed",
        "records",
        "Records that became rows: one each, or with `rows: array` any number",
        "pipeline cluster",
    ),
    (
        "records_unparsed",
        "records",
        "Records, and rows of records, that are in `_rejected/`, by their reason",
        "pipeline cluster reason",
    ),
    (
        "rows_landed",
        "rows",
        "Rows in the lake, by type: those under `tables`, the others as `_others`",
        "pipeline cluster type",
    ),
    ("rows_late", "rows", "Rows of event hours that were complete already", "pipeline cluster"),
    (
        "offset_holes",
        "offsets",
        "Offsets without a record, explained by compaction or transactions",
        "pipeline cluster",
    ),
    (
        "offsets_lost",
        "offsets",
        "Offsets that Kafka no longer had, and that were given up",
        "pipeline cluster topic",
    ),
    ("files_landed", "files", "Parquet files in type/date/hour folders", "pipeline cluster"),
    ("bytes_landed", "bytes", "Their size", "pipeline cluster"),
    ("files_rejected", "files", "Parquet files in `_rejected/`", "pipeline cluster"),
    ("bytes_rejected", "bytes", "Their size", "pipeline cluster"),
    ("event_hours_landed", "hours", "Different event hours that slices brought", "pipeline cluster"),
    # load
    ("units_loaded", "units", "Units that were committed", "pipeline table"),
    ("units_skipped", "units", "Units that the ledger held already", "pipeline table"),
    ("rows_loaded", "rows", "Rows that were committed", "pipeline table"),
    ("rows_misfit", "rows", "Rows with a value that does not fit its column", "pipeline table"),
    ("rows_rejected", "rows", "The same by column", "pipeline table column"),
    # verify and publish
    ("units_verified", "units", "Units whose equations were computed", "pipeline"),
    ("records_verified", "records", "Records of those units", "pipeline"),
    ("anomalies_found", "anomalies", "Broken equations that a verify found, by kind", "pipeline kind"),
    ("asset_events", "events", "Asset events emitted for DAGs downstream", "pipeline table"),
    # every step
    ("step_runs", "runs", "Ends of steps; `outcome` is done, retry or failed", "pipeline step outcome"),
    (
        "step_errors",
        "errors",
        "Errors by class; those with `retry` yes are done again by Airflow",
        "pipeline step error retry",
    ),
    # the watch: what is wrong
    ("alarms_sent", "notices", "Notices that were delivered", "pipeline"),
    ("alarms_raised", "problems", "Problems that a channel was notified of", "pipeline"),
    ("alarms_cleared", "problems", "Ends of problems that a channel was notified of", "pipeline"),
    (
        "watch_runs",
        "runs",
        "Runs of the watch: an alarm on their absence says that no watch runs",
        "pipeline",
    ),
)

GAUGES = _metrics(
    MetricKind.GAUGE,
    # land
    ("types_landed", "types", "Different types in the last batch", "pipeline cluster"),
    # the watch: hours
    ("lag_seconds", "seconds", "Since the end of the newest complete slice", "pipeline"),
    ("lag_records", "records", "In Kafka and not landed, of all clusters that answer", "pipeline"),
    (
        "hours_behind",
        "slices",
        "Slices that are over and not complete, older ones than `heal` included",
        "pipeline",
    ),
    ("units_in_state", "units", "Units of the last `heal`, by state", "pipeline state"),
    ("table_units_behind", "units", "Units that are landed and not in the table", "pipeline table"),
    ("units_expired", "units", "Units that Kafka no longer has whole", "pipeline"),
    ("newest_complete_timestamp", "seconds", "End of the newest complete slice, since the epoch", "pipeline"),
    ("newest_landed_timestamp", "seconds", "End of the newest landed slice, since the epoch", "pipeline"),
    (
        "retention_seconds_left",
        "seconds",
        "Until Kafka deletes the first hour that has not landed",
        "pipeline",
    ),
    ("rows_per_slice", "rows", "Rows of the newest landed slice", "pipeline cluster"),
    ("boundary_entries", "entries", "Entries of the boundary log", "pipeline"),
    # the watch: partitions
    (
        "partition_lag_records",
        "records",
        "In Kafka and not landed; of the 200 partitions that are furthest behind",
        "pipeline cluster topic partition",
    ),
    (
        "partition_lag_seconds",
        "seconds",
        "Since the end of the partition's newest landed slice",
        "pipeline cluster topic partition",
    ),
    ("partition_rate", "records/s", "Mean rate of the landed slices", "pipeline cluster topic partition"),
    ("partition_log_start", "offset", "First offset that is still there", "pipeline cluster topic partition"),
    ("partition_log_end", "offset", "Offset after the last one", "pipeline cluster topic partition"),
    ("partitions", "partitions", "Partitions of the topics that are read", "pipeline cluster"),
    ("partitions_still", "partitions", "Partitions that stand still while their siblings move", "pipeline"),
    # the watch: what is wrong
    (
        "anomalies_open",
        "anomalies",
        "Broken equations that the last verify of each hour left open, by kind",
        "pipeline kind",
    ),
    ("problems_open", "problems", "Problems that the watch sees, by kind", "pipeline kind"),
    ("unavailable", "sources", "1 for a source that did not answer, else 0", "pipeline source"),
    ("verify_age_seconds", "seconds", "Since the last verify", "pipeline"),
    # the watch: the target and the lake
    (
        "server_errors",
        "errors",
        "Errors of quorum, Keeper and merges in the last 15 minutes, counted since the server's start",
        "pipeline code",
    ),
    ("table_parts", "parts", "Active parts in the fullest partition of a target", "pipeline table"),
    ("replication_queue", "entries", "Entries in a target's replication queue", "pipeline table"),
    ("server_disk_free_bytes", "bytes", "Free on a disk of the ClickHouse server", "pipeline disk"),
    ("server_disk_total_bytes", "bytes", "Its size", "pipeline disk"),
    ("lake_free_bytes", "bytes", "Free where a lake in a folder is", "pipeline"),
)

TIMERS = _metrics(
    MetricKind.TIMER,
    # verify
    (
        "freshness_seconds",
        "seconds",
        "Age of records when their hour was first committed and verified in a table; 20 samples an hour",
        "pipeline table",
    ),
    # load
    ("lease_wait", "seconds", "Time until the table's lease was held", "pipeline table"),
    # every step
    ("step_seconds", "seconds", "Time of a step, also of one that failed", "pipeline step"),
)

METRICS = {metric.name: metric for metric in (*COUNTERS, *GAUGES, *TIMERS)}
