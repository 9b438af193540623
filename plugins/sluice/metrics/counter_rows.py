"""The counters, from the steps and the watch."""

from __future__ import annotations

from sluice.metrics.metric import MetricKind, metrics

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
        "records_unparsed",
        "records",
        "Records, and rows of records, that are in `_rejected/`, by their reason",
        "pipeline cluster reason",
    ),
    ("records_erased", "records", "Records that the erasure list left out", "pipeline cluster"),
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
    ("rows_misfit", "rows", "Rows with a value that does not fit its column", "pipeline table"),
    ("rows_rejected", "rows", "The same by column", "pipeline table column"),
    (
        "values_defaulted",
        "values",
        "Values of rows that were committed which are defaults: the event has none",
        "pipeline table",
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
