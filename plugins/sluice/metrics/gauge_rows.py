"""The gauges; most of them are the watch's."""

from __future__ import annotations

from sluice.metrics.metric import MetricKind, metrics

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
    ("misfit_share", "share", "Rows of the last load that do not fit", "pipeline table"),
    ("column_misfit_share", "share", "The same by column", "pipeline table column"),
    # the watch: the newest landed slice
    ("slice_bytes", "bytes", "Size in the lake of the newest landed slice", "pipeline cluster"),
    ("slice_files", "files", "Files of the newest landed slice", "pipeline cluster"),
    ("slice_types", "types", "Types of the newest landed slice", "pipeline cluster"),
    (
        "slice_unparsed_share",
        "share",
        "Records of the newest landed slice that are no rows",
        "pipeline cluster",
    ),
    ("slice_late_share", "share", "Rows of the newest landed slice that were late", "pipeline cluster"),
    ("table_slice_rows", "rows", "Rows of the newest committed slice", "pipeline table"),
    ("table_misfit_share", "share", "Misfits of the newest committed slice", "pipeline table"),
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
