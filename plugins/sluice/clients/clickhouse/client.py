"""The thin adapter on clickhouse-connect: statements in, rows or Sluice's errors out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from clickhouse_connect.driver.client import Client as Driver
from clickhouse_connect.driver.exceptions import ClickHouseError, Error, OperationalError
from clickhouse_connect.driver.summary import QuerySummary
from urllib3.exceptions import HTTPError, MaxRetryError

from sluice.clients.clickhouse.errors import READONLY, ServerError, shorten
from sluice.errors import ClickHouseUnavailable
from sluice.metrics import meter

# Settings that statements carry, whatever the user's profile and the driver say.

# Every statement carries these (connect.py), also the first, which asks for all others that a profile
# has changed (connect.py). They are the server's own defaults: a user who may only read, and may not set
# them, has them already, or is refused.
READS: dict[str, object] = {
    # What a SELECT means.
    "session_timezone": "",
    "join_use_nulls": 0,
    "join_default_strictness": "ALL",
    "any_join_distinct_right_table_keys": 0,
    "aggregate_functions_null_for_empty": 0,
    "group_by_use_nulls": 0,
    "transform_null_in": 0,
    "union_default_mode": "",
    "prefer_column_name_to_alias": 0,
    "asterisk_include_alias_columns": 0,
    "asterisk_include_materialized_columns": 0,
    "extremes": 0,
    # Which rows it reads.
    "limit": 0,
    "offset": 0,
    "final": 0,
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "apply_deleted_mask": 1,
    "max_rows_to_read": 0,
    "max_bytes_to_read": 0,
    "max_rows_to_read_leaf": 0,
    "max_bytes_to_read_leaf": 0,
    "max_result_rows": 0,
    "max_result_bytes": 0,
    "read_overflow_mode": "throw",
    "read_overflow_mode_leaf": "throw",
    "result_overflow_mode": "throw",
    "timeout_overflow_mode": "throw",
    "group_by_overflow_mode": "throw",
    "sort_overflow_mode": "throw",
    "set_overflow_mode": "throw",
    "distinct_overflow_mode": "throw",
    "join_overflow_mode": "throw",
    "transfer_overflow_mode": "throw",
    "force_index_by_date": 0,
    "force_primary_key": 0,
    "skip_unavailable_shards": 0,
    "use_query_cache": 0,
    "implicit_transaction": 0,
    "dialect": "clickhouse",
    "memory_tracker_fault_probability": 0,
    "compatibility": "",  # it has changed hundreds of others, which go back with it
}

# What a value means, too: whoever casts, counts or compares carries these.
STEADY: dict[str, object] = {
    **READS,
    # How values are read and written.
    "cast_keep_nullable": 0,
    "cast_ipv4_ipv6_default_on_conversion_error": 0,
    "cast_string_to_dynamic_use_inference": 0,
    "cast_string_to_variant_use_inference": 0,  # a string stays a string
    "check_conversion_from_numbers_to_enum": 1,
    "date_time_overflow_behavior": "ignore",  # the casts check the range themselves
    "decimal_check_overflow": 1,
    "precise_float_parsing": 1,
    "json_type_escape_dots_in_keys": 0,
    "type_json_skip_duplicated_paths": 0,
    "bool_true_representation": "true",
    "bool_false_representation": "false",
    "output_format_decimal_trailing_zeros": 0,
    "output_format_float_precision": 0,
    "date_time_output_format": "simple",
    "print_pretty_type_names": 0,
    # Times at a JSON's typed paths; what it makes of them is compared with the strict cast (flow/load/casts).
    "date_time_input_format": "best_effort",
    # A text that looks like a date stays a text: February 30th would be March 1st in a JSON.
    "input_format_try_infer_dates": 0,
    "input_format_try_infer_datetimes": 0,
    # As many digits as the type has, not always six (flow/load/casts/times.py).
    "formatdatetime_f_prints_scale_number_of_digits": 1,
    "formatdatetime_f_prints_single_zero": 0,
    "short_circuit_function_evaluation": "enable",
    # Compiled, CAST(v + 1, 'Int64') of a NULL is 1; elsewhere it fails.
    "compile_expressions": 0,
    "allow_hyperscan": 1,
    "max_hyperscan_regexp_length": 0,
    "max_hyperscan_regexp_total_length": 0,
    "use_hive_partitioning": 0,
    # A table of 1,000 columns is one long statement: who searches for conditions that occur twice is busy for
    # minutes.
    "optimize_extract_common_expressions": 0,
    "optimize_and_compare_chain": 0,
    "optimize_min_equality_disjunction_chain_length": 1000,
    "max_query_size": 64 * 1024 * 1024,
    "max_parser_backtracks": 0,
    "max_ast_depth": 10_000,
    "max_ast_elements": 50_000_000,
    "max_expanded_ast_elements": 50_000_000,
    "max_subquery_depth": 1000,
    "max_columns_to_read": 0,
    "max_temporary_columns": 0,
    "max_temporary_non_const_columns": 0,
}

WRITE: dict[str, object] = {
    **STEADY,
    # Types and definitions that the target has, its temporary tables and its view may have.
    "allow_suspicious_low_cardinality_types": 1,
    "allow_suspicious_variant_types": 1,
    "allow_suspicious_fixed_string_types": 1,
    "allow_suspicious_codecs": 1,
    "allow_suspicious_indices": 1,
    "allow_suspicious_primary_key": 1,
    "allow_suspicious_ttl_expressions": 1,
    # A table of the target's definitions has its columns: a Nested that is one stays one.
    "flatten_nested": 0,
    # Block deduplication forgets and is not atomic; the ledger decides instead.
    "insert_deduplicate": 0,
    "deduplicate_insert": "disable",
    "deduplicate_insert_select": "disable",
    "deduplicate_blocks_in_dependent_materialized_views": 0,
    "async_insert": 0,
    # A view that fails has to fail its INSERT.
    "materialized_views_ignore_errors": 0,
    "insert_null_as_default": 1,
    "insert_allow_materialized_columns": 0,
    # As a PREWHERE on the files, the rejected rows' condition would parse the JSON a second time.
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
    # Views' tables may have more partitions than the target.
    "max_partitions_per_insert_block": 0,
    # What a view's SELECT means is asked of the analyzer, so it is what carries it out.
    "enable_analyzer": 1,
}

NEWER_READS: dict[str, object] = {"inject_random_order_for_select_without_order_by": 0}
"""Of these, what a server of 25.8 may not know."""

NEWER = frozenset({"deduplicate_insert", "deduplicate_insert_select"})
"""Settings that 25.8 does not have, and would refuse a statement for."""


# Counts see every row that a quorum has; that is so only while inserts wait for one another.
READ_QUORUM: dict[str, object] = {"select_sequential_consistency": 1, "insert_quorum_parallel": 0}


_KINDS = frozenset({"SELECT", "WITH", "INSERT", "ALTER", "DELETE", "CREATE", "DROP", "EXPLAIN", "DESCRIBE"})
Parameters = Mapping[str, Any]
Settings = Mapping[str, Any]


@dataclass
class Silence:
    """Whether a server is asked again, after it has not answered: not for the next `seconds`.

    Each of many callers would otherwise wait as long as the first one did.
    """

    seconds: float = 0.0
    error: ClickHouseUnavailable | None = None
    until: float = 0.0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raises at once what was raised here before, as long as the silence lasts."""
        if self.error is not None and time.monotonic() < self.until:
            raise ClickHouseUnavailable(self.error.url, self.error.reason)
        try:
            yield
        except ClickHouseUnavailable as error:
            self.error, self.until = error, time.monotonic() + self.seconds
            raise
        self.error = None


class Client:
    """One server. Statements may run side by side from several threads (there is no session).

    Every method raises ServerError when the server refuses, and ClickHouseUnavailable when it does not
    answer; after that, a statement that writes may still take effect.
    """

    def __init__(
        self, driver: Driver, address: str, reading: Settings | None = None, silence: Silence | None = None
    ) -> None:
        self._driver = driver
        self._reading = dict(reading or {})
        self._silence = silence or Silence()
        self.address = address

    def reading(self, settings: Settings) -> Client:
        """Returns the same server; statements that only read carry the settings, too."""
        return Client(self._driver, self.address, {**self._reading, **settings}, self._silence)

    def rows(
        self, sql: str, parameters: Parameters | None = None, settings: Settings | None = None
    ) -> list[Sequence[Any]]:
        """Returns the rows of a statement that only reads; a lost connection is asked again."""
        with self._explained(sql), _metered(sql):
            carried = self._known({**self._reading, **(settings or {})})
            result = self._driver.query(sql, parameters=dict(parameters or {}) or None, settings=carried)
            return list(result.result_rows)

    def run(
        self,
        sql: str,
        parameters: Parameters | None = None,
        settings: Settings | None = None,
        body: bytes | None = None,
    ) -> None:
        """Sends one statement once, and waits for its end; `body` is the data of an INSERT."""
        with self._explained(sql), _metered(sql) as kind:
            carried = self._known(settings or {})
            answer = self._driver.command(
                sql, parameters=dict(parameters or {}) or None, data=body, settings=carried
            )
            if kind == "INSERT" and isinstance(answer, QuerySummary):
                meter.add("insert_rows", _whole(answer.summary.get("written_rows")))
                meter.add("insert_bytes", _whole(answer.summary.get("written_bytes")))

    def close(self) -> None:
        self._driver.close()

    def _known(self, settings: Settings) -> dict[str, Any]:
        """Leaves out settings that only newer servers have: the driver has asked for this one's."""
        return {
            name: value
            for name, value in settings.items()
            if name not in NEWER or name in self._driver.server_settings
        }

    @contextmanager
    def _explained(self, sql: str) -> Iterator[None]:
        with self._silence.kept():
            try:
                yield
            except ClickHouseError as error:
                raise explain(error, self.address, " ".join(sql.split())[:60]) from error
            except (HTTPError, OSError) as error:
                raise ClickHouseUnavailable(self.address, shorten(str(error), 120)) from error


def _whole(text: str | None) -> int:
    """Returns a whole number; 0 for any other text, also of a proxy: a load does not fail for it."""
    return int(text) if text is not None and text.isdecimal() else 0


@contextmanager
def _metered(sql: str) -> Iterator[str]:
    """Counts a statement by its first word, which it hands out, and times it where it inserts."""
    word = next(
        (line.split()[0] for line in sql.splitlines() if line.strip() and line[:2] != "--"), ""
    ).upper()
    kind, started = word if word in _KINDS else "other", time.monotonic()
    meter.add("clickhouse_statements", kind=kind)
    try:
        yield kind
    except BaseException:
        meter.add("clickhouse_failures", kind=kind)
        raise
    finally:
        if kind == "INSERT":
            meter.took("insert_seconds", time.monotonic() - started)


def explain(error: ClickHouseError, address: str, step: str) -> ServerError | ClickHouseUnavailable:
    """Translates an error of the driver's. Without a code of the server, its answer never came."""
    code = error.code if isinstance(error, Error) else None
    if code is None and (isinstance(error, OperationalError) or "HTTP status 5" in str(error)):
        cause = error.__cause__ or error
        if isinstance(cause, MaxRetryError):  # its own text is mostly the statement's URL
            cause = cause.reason or cause
        return ClickHouseUnavailable(address, shorten(str(cause), 160))
    if code is None and "is readonly" in str(error):  # the driver asks the server no more
        return ServerError(address, READONLY, "READONLY", step, shorten(str(error)))
    name = error.name if isinstance(error, Error) else None
    return ServerError(address, code or 0, name or "", step, shorten(str(error)))
