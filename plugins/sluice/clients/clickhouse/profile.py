"""What a user's profile has changed of the server's settings goes back to the server's defaults.

Which of a server's 1,500 settings change a value or refuse a statement nobody can list once and for all. So
the server is asked which ones are not at their defaults, and every statement sets these back; what stays is
what a profile is for: limits, resources, waiting, logs, caches, and what the user's own types need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.settings import READS

_KEPT = re.compile(
    "|".join(
        (
            # What one statement, or one user, may use of the server.
            r"max_(memory_usage|untracked_memory|concurrent_queries|sessions|network|temporary_data_on_disk).*",
            r"max_(bytes|bytes_ratio)_before_(external|remerge).*",
            r"max_(insert_|final_|download_|parsing_)?threads.*",
            r"max_execution_(time|speed).*",
            r"max_\w*bandwidth|(memory_(overcommit|profiler|usage)|min_free_disk)_\w+|reserve_memory",
            r"priority|workload|os_threads_nice_value_\w+|use_concurrency_control|queue_max_wait_ms",
            r"\w*timeout(_ms|_sec)?|\w*_backoff\w*|\w*_retries|\w*_max_tries",
            # How much is written down, and where a read finds it.
            r"(log|send_logs|query_profiler|opentelemetry|metrics_perf|trace_profile|jemalloc)_\w+",
            r"query_metric_log_interval|(calculate_text|enable_job)_stack_trace|enable_\w+_log(ging)?(_\w+)?",
            r"\w*(filesystem|distributed|page|metadata_files)_cache\w*|use_uncompressed_cache",
            r"(s3|azure)_(max|min|use_adaptive)_\w+|\w+_fs_\w+|remote_read_\w+",
            # How long a statement waits for other servers, and how many have to have a row.
            r"insert_quorum\w*|select_sequential_consistency|distributed_ddl_\w+|database_\w+|load_balancing\w*",
            # What a server is, and what may be done there.
            r"readonly|allow_ddl|cloud_mode\w*|add_http_cors_header|send_progress_in_http_headers",
            r"http_headers_progress_interval_ms|cancel_http_readonly_queries_on_client_close",
        )
    )
)
# The user's tables may need what the profile allows; what it forbids is allowed again.
_ALLOWS = re.compile(
    r"allow_(experimental|suspicious|deprecated|introspection|named_collection)_\w+"
    r"|s3_allow_server_credentials_in_user_queries|enable_time_time64_type"
)
# They are named as if they allowed something, and change what a SELECT does.
_MEANS = ("allow_experimental_analyzer", "allow_experimental_parallel_reading_from_replicas")
# The server refuses statements that set these to their own default, an empty text.
_LASTING = ("force_data_skipping_indices",)


@dataclass(frozen=True)
class Changed:
    """A setting whose value isn't the server's default; `fixed`: the user may not change it."""

    name: str
    value: str
    default: str
    fixed: bool


@dataclass(frozen=True)
class Pin:
    """`back` is what every statement sets; `fixed` are the settings that should be set back, and can't."""

    back: Mapping[str, str]
    fixed: tuple[str, ...]


def pin(changed: Iterable[Changed], reader: bool) -> Pin:
    """Decides what is set back. Pure.

    A `reader` may only read, and sets nothing: what READS doesn't name stays as its profile has it.
    """
    others = [one for one in changed if not _stays(one)]
    lasting = [one.name for one in others if one.name in _LASTING]
    fixed = [one.name for one in others if one.fixed and (not reader or one.name in READS)]
    back = {one.name: one.default for one in others if not one.fixed and one.name not in lasting}
    return Pin(back, tuple(sorted({*fixed, *lasting})))


def _stays(one: Changed) -> bool:
    if one.name not in _MEANS and _ALLOWS.fullmatch(one.name):
        return one.default == "0"
    return stays(one.name)


def stays(name: str) -> bool:
    """Returns whether the setting is the administrator's, whatever its value."""
    return bool(_KEPT.fullmatch(name))
