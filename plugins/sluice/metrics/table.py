"""Every metric: its name, kind, unit, meaning and labels; docs/guide/reference/metrics.md shows them.

They go through Airflow's own metrics (StatsD or OpenTelemetry, `[metrics]` in its configuration), with
labels as tags. Outside Airflow they are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from sluice.runtime import SHIPPED

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


def metrics(kind: MetricKind, *rows: tuple[str, str, str, str]) -> tuple[Metric, ...]:
    """Returns one for each (name, unit, meaning, labels)."""
    return tuple(
        Metric(name, kind, unit, meaning, tuple(labels.split())) for name, unit, meaning, labels in rows
    )


COUNTERS = metrics(
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
        "rejected_records",
        "records",
        "Records, and rows of records, that are in `_rejected/`, by their reason",
        "pipeline cluster reason",
    ),
    ("tombstones", "records", "Records without a value, which are no rejects", "pipeline cluster"),
    ("records_erased", "records", "Records that the erasure list left out", "pipeline cluster"),
    (
        "rows_landed",
        "rows",
        "Rows in the lake, by type: those under `tables`, the others as `_others`",
        "pipeline cluster type",
    ),
    ("rows_late", "rows", "Rows of event hours that were complete already", "pipeline cluster"),
    (
        "offset_gaps",
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
    ("offsets_landed", "offsets", "Offsets between the boundaries of the units", "pipeline cluster"),
    ("units_empty", "units", "Units that Kafka had no record of", "pipeline cluster"),
    ("records_empty", "records", "Records whose array held no row", "pipeline cluster"),
    ("files_small", "files", "Files of events below 1 MiB: many of them make reads slow", "pipeline cluster"),
    ("event_hours_late", "hours", "Event hours before their slice that slices brought", "pipeline cluster"),
    ("counts_landed", "rows", "Rows of traffic counts, of all their tables", "pipeline cluster"),
    ("bytes_counts", "bytes", "Size of the files of traffic counts", "pipeline cluster"),
    (
        "bytes_discarded",
        "bytes",
        "Files that no manifest names: merged into larger ones, or of tasks and landings that failed",
        "pipeline",
    ),
    ("spark_stages", "stages", "Stages that Spark has run for landings", "pipeline"),
    ("spark_tasks", "tasks", "Tasks of those stages, each try of them", "pipeline"),
    ("spark_tasks_failed", "tasks", "Those of them that failed; Spark tries them again", "pipeline"),
    (
        "spark_shuffle_bytes",
        "bytes",
        "Bytes that those tasks gave to others: a landing needs none of it",
        "pipeline",
    ),
    ("spark_spilled_bytes", "bytes", "Bytes that Spark wrote to disk for want of memory", "pipeline"),
    # load
    ("load_statements", "statements", "Statements that wrote into ClickHouse", "pipeline table"),
    (
        "load_blocks",
        "blocks",
        "Blocks that they put into the target, `sluice.rejected` and the ledger",
        "pipeline table",
    ),
    ("units_loaded", "units", "Units that were committed", "pipeline table"),
    ("units_skipped", "units", "Units that the ledger held already", "pipeline table"),
    ("rows_loaded", "rows", "Rows that were committed", "pipeline table"),
    ("rejected_rows", "rows", "Rows with a value that does not fit its column", "pipeline table"),
    ("rejected_rows_by_column", "rows", "The same by column", "pipeline table column"),
    (
        "values_defaulted",
        "values",
        "Values of rows that were committed which are defaults: the event has none",
        "pipeline table",
    ),
    (
        "rows_failing_check",
        "rows",
        "Rows that were committed and fail a check, by check",
        "pipeline table check",
    ),
    # verify and publish
    ("units_verified", "units", "Units whose equations were computed", "pipeline"),
    ("records_verified", "records", "Records of those units", "pipeline"),
    ("files_verified", "files", "Files that the manifests of those units name", "pipeline"),
    ("bytes_verified", "bytes", "Their size", "pipeline"),
    ("rows_verified", "rows", "Rows that the ledger holds of those units", "pipeline table"),
    ("rows_compared", "rows", "Rows whose values were compared with those of the lake", "pipeline"),
    ("anomalies_found", "anomalies", "Broken equations that a verify found, by kind", "pipeline kind"),
    ("asset_events", "events", "Asset events emitted for DAGs downstream", "pipeline table"),
    # every step: its clients, and those of Spark's driver, without its tasks
    (
        "clickhouse_statements",
        "statements",
        "Statements sent to ClickHouse, by their first word",
        "pipeline kind",
    ),
    ("clickhouse_failures", "statements", "Those of them that failed", "pipeline kind"),
    ("insert_rows", "rows", "Rows that INSERTs wrote, also into temporary tables and views", "pipeline"),
    ("insert_bytes", "bytes", "Their size in memory, before compression", "pipeline"),
    ("bucket_requests", "requests", "Requests to S3, each try of them, by operation", "pipeline operation"),
    ("bucket_bytes_sent", "bytes", "Bytes of their bodies", "pipeline"),
    ("bucket_bytes_received", "bytes", "Bytes of the answers' bodies", "pipeline"),
    # forget
    ("units_forgotten", "units", "Units of which the lake forgot files, as `keep` says", "pipeline"),
    ("bytes_forgotten", "bytes", "Bytes of those files", "pipeline"),
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

# Most of them are the watch's.
GAUGES = metrics(
    MetricKind.GAUGE,
    # land
    ("types_landed", "types", "Different types in the last batch", "pipeline cluster"),
    (
        "partitions_landed",
        "partitions",
        "Partitions that brought records in the last batch",
        "pipeline cluster",
    ),
    (
        "partition_skew",
        "ratio",
        "Records of the last batch's fullest partition, as a multiple of the mean",
        "pipeline cluster",
    ),
    ("bytes_per_row", "bytes", "Size in the lake of a row of the last batch", "pipeline cluster"),
    ("rows_per_file", "rows", "Rows of a file of the last batch", "pipeline cluster"),
    ("largest_file_bytes", "bytes", "Largest file of the last batch", "pipeline cluster"),
    ("fields_landed", "fields", "Fields of the last batch's events, by type", "pipeline cluster type"),
    (
        "bytes_written_per_byte_kept",
        "ratio",
        "Bytes of all files that the last batch wrote, as a multiple of those that manifests name",
        "pipeline",
    ),
    # load
    (
        "rows_written_per_row_kept",
        "ratio",
        "Rows that all INSERTs of the last load wrote, as a multiple of those that stay",
        "pipeline table",
    ),
    ("rows_per_block", "rows", "Rows of a block of the last load", "pipeline table"),
    ("load_rows_per_second", "rows/s", "Pace of the last load", "pipeline table"),
    ("rejected_share", "share", "Rows of the last load that do not fit", "pipeline table"),
    ("column_rejected_share", "share", "The same by column", "pipeline table column"),
    # the watch: the newest landed slice
    ("slice_bytes", "bytes", "Size in the lake of the newest landed slice", "pipeline cluster"),
    ("slice_files", "files", "Files of the newest landed slice", "pipeline cluster"),
    ("slice_types", "types", "Types of the newest landed slice", "pipeline cluster"),
    (
        "slice_rejected_share",
        "share",
        "Records of the newest landed slice that are no rows",
        "pipeline cluster",
    ),
    ("slice_late_share", "share", "Rows of the newest landed slice that were late", "pipeline cluster"),
    ("table_slice_rows", "rows", "Rows of the newest committed slice", "pipeline table"),
    ("table_rejected_share", "share", "Rejected rows of the newest committed slice", "pipeline table"),
    # the watch: what is usual
    ("history_slices", "slices", "Slices whose rows are known, of the last six weeks", "pipeline"),
    ("rows_seen", "rows", "Rows of the newest slice that has landed whole, of all types", "pipeline"),
    ("rows_expected", "rows", "Rows that were expected of it, from its second day on", "pipeline"),
    ("rows_usual_least", "rows", "Least rows that are usual for it, from the fourth week on", "pipeline"),
    ("type_rows_seen", "rows", "Rows of that slice, by type under `tables`", "pipeline type"),
    # the watch: hours
    ("lag_seconds", "seconds", "Since the end of the newest complete slice", "pipeline"),
    ("lag_records", "records", "In Kafka and not landed, of all clusters that answer", "pipeline"),
    (
        "lacking_records",
        "records",
        "Of these, in slices that have landed without the topic: only reland brings them",
        "pipeline",
    ),
    (
        "outside_records",
        "records",
        "In Kafka before the first boundary, in no slice, of all clusters that answer",
        "pipeline",
    ),
    (
        "hours_behind",
        "slices",
        "Slices that are over and not complete, older ones than `lookback` included",
        "pipeline",
    ),
    ("units_in_state", "units", "Units within `lookback`, by state", "pipeline state"),
    (
        "table_units_behind",
        "units",
        "Units that are landed and not in the table, or in it as they were",
        "pipeline table",
    ),
    ("units_expired", "units", "Units that Kafka no longer has whole", "pipeline"),
    ("newest_complete_timestamp", "seconds", "End of the newest complete slice, since the epoch", "pipeline"),
    ("newest_landed_timestamp", "seconds", "End of the newest landed slice, since the epoch", "pipeline"),
    (
        "retention_seconds_left",
        "seconds",
        "Until Kafka deletes the first hour that has not landed; 100 years where it deletes none",
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
    ("partition_rate", "records/s", "Rate of the newest landed slice", "pipeline cluster topic partition"),
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
    ("causes_open", "causes", "The same, by what one repair ends", "pipeline"),
    ("problems_open", "problems", "Problems that the watch sees, by kind", "pipeline kind"),
    ("unavailable", "sources", "1 for a source that did not answer, else 0", "pipeline source"),
    ("verify_age_seconds", "seconds", "Since the last verify", "pipeline"),
    ("schema_changes", "changes", "Changes of fields in the slices within `lookback`", "pipeline"),
    ("columns_added", "columns", "Columns that loads have added in those slices", "pipeline"),
    ("tables_missing", "tables", "Target tables that are not there", "pipeline"),
    ("transactions_open", "partitions", "Partitions with records behind an open transaction", "pipeline"),
    ("records_held", "offsets", "Offsets behind open transactions", "pipeline"),
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

TIMERS = metrics(
    MetricKind.TIMER,
    # land
    (
        "landing_delay_seconds",
        "seconds",
        "From a slice's end until it landed for the first time",
        "pipeline cluster",
    ),
    ("spark_stage_seconds", "seconds", "Time of a stage of Spark", "pipeline"),
    ("spark_task_seconds", "seconds", "Mean time of the tasks of a stage", "pipeline"),
    # verify
    (
        "freshness_seconds",
        "seconds",
        "Age of records when their hour was first committed and verified in a table; 20 samples an hour",
        "pipeline table",
    ),
    # load
    ("insert_seconds", "seconds", "Time of an INSERT; the first 1,000 of a step", "pipeline"),
    ("load_seconds", "seconds", "Time of a load into one table", "pipeline table"),
    ("lease_wait", "seconds", "Time until the table's lease was held", "pipeline table"),
    # every step
    ("step_seconds", "seconds", "Time of a step, also of one that failed", "pipeline step"),
)

METRICS = {metric.name: metric for metric in (*COUNTERS, *GAUGES, *TIMERS)}


# Formats docs/guide/reference/metrics.md, which local/documents writes.

ALERTS = SHIPPED / "monitoring" / "alerts.yaml"
_SERIES = ("", "_bucket", "_sum", "_count")
_INTRODUCTION = """# Metrics

Every metric, made from plugins/sluice/metrics/ (`python -m local.documents.generated`).
[Metrics and alarms](../metrics.md) says how they reach a collector. Counters and timers come from the steps
of `<name>` and `<name>_backfill`, gauges from `<name>_watch`.
"""
_ALERTS = """These are the rules of monitoring/alerts.yaml. A "page" is for now, a "ticket" for the next day.
"""
_NAME = re.compile(r"\bsluice_\w+")


def rules(path: Path = ALERTS) -> dict[str, str]:
    """Returns the expression of each alert."""
    return {rule["alert"]: rule["expr"] for rule in _rules(path)}


def _rules(path: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts_of(metric: Metric, expressions: Mapping[str, str]) -> list[str]:
    """Returns the alerts whose expressions mention the metric, or one of a timer's series."""
    series = {metric.exported + suffix for suffix in _SERIES}
    return [name for name, expression in expressions.items() if series & set(_NAME.findall(expression))]


def table(metrics: Iterable[Metric], expressions: Mapping[str, str]) -> Iterator[str]:
    yield "| metric | unit | meaning | labels | alert |"
    yield "| --- | --- | --- | --- | --- |"
    for metric in metrics:
        labels, alerts = ", ".join(metric.labels), ", ".join(alerts_of(metric, expressions)) or "–"
        yield f"| `{metric.full_name}` | {metric.unit} | {metric.meaning} | {labels} | {alerts} |"


def alerts(path: Path = ALERTS) -> Iterator[str]:
    yield "| alert | severity | when | for | says | do |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for rule in _rules(path):
        said, do = (_plain(rule["annotations"][name]) for name in ("summary", "action"))
        severity, when = rule["labels"]["severity"], " ".join(rule["expr"].split())
        yield f"| {rule['alert']} | {severity} | `{when}` | {rule.get('for', '–')} | {said} | {do} |"


def _plain(text: str) -> str:
    """Without the pipeline or table that it begins with; labels in capitals, `…` for a value."""
    unnamed = re.sub(r"^\{\{ \$labels\.(pipeline|table) }}: ", "", text)
    named = re.sub(r"\{\{ \$labels\.(\w+) }}", lambda label: label[1].upper(), unnamed)
    return re.sub(r"\{\{[^}]*}}", "…", named).replace("<name>", "NAME")


def page() -> str:
    expressions = rules()
    sections = {"Counters": COUNTERS, "Gauges": GAUGES, "Timers": TIMERS}
    return (
        _INTRODUCTION
        + "".join(
            f"\n## {title}\n\n{chr(10).join(table(metrics, expressions))}\n"
            for title, metrics in sections.items()
        )
        + f"\n## Alerts\n\n{_ALERTS}\n{chr(10).join(alerts())}\n"
    )
