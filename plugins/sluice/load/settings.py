"""Settings that every statement of a load carries, whatever the user's profile and the driver say."""

from __future__ import annotations

WRITE: dict[str, object] = {
    # Block deduplication forgets and is not atomic; the ledger decides instead.
    "insert_deduplicate": 0,
    "deduplicate_blocks_in_dependent_materialized_views": 0,
    "async_insert": 0,
    # A view that fails has to fail its INSERT.
    "materialized_views_ignore_errors": 0,
    "insert_null_as_default": 1,
    "insert_allow_materialized_columns": 0,
    "join_use_nulls": 0,
    "transform_null_in": 0,
    "cast_keep_nullable": 0,
    # Times at a JSON's typed paths; what it makes of them is compared with the strict cast (load/casts.py).
    "date_time_input_format": "best_effort",
    # A text that looks like a date stays a text: February 30th would be March 1st in a JSON.
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    # As many digits as the type has, not always six (load/times.py).
    "formatdatetime_f_prints_scale_number_of_digits": 1,
    "formatdatetime_f_prints_single_zero": 0,
    "short_circuit_function_evaluation": "enable",
    "allow_hyperscan": 1,
    "use_hive_partitioning": 0,
    # As a PREWHERE on the files, the misfits' condition would parse the JSON a second time.
    "optimize_move_to_prewhere": 0,
    "mutations_sync": 2,
    "lightweight_deletes_sync": 2,
    "alter_sync": 2,
    # A mutation has to read the fence when it runs, not when it is accepted.
    "mutations_execute_subqueries_on_initiator": 0,
    # Temporary tables are dropped, however large.
    "max_table_size_to_drop": 0,
    "max_partition_size_to_drop": 0,
    "max_execution_time": 0,
    # A table of 1,000 columns is one long statement, its nesting shallow.
    "max_query_size": 64 * 1024 * 1024,
    "max_ast_elements": 50_000_000,
    "max_expanded_ast_elements": 50_000_000,
    # Views' tables may have more partitions than the target.
    "max_partitions_per_insert_block": 0,
    # What a view's SELECT means is asked of the analyzer, so it is what carries it out.
    "enable_analyzer": 1,
}
