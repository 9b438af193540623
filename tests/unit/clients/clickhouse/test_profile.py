"""What of a user's profile every statement sets back, and what is the administrator's."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.connect import Changed, Pin, pin


@pytest.mark.parametrize(
    ("name", "value", "default"),
    [
        ("allow_simdjson", "0", "1"),
        ("asterisk_include_virtual_columns", "1", "0"),
        ("enable_lightweight_delete", "0", "1"),
        ("lightweight_delete_mode", "lightweight_update_force", "alter_update"),
        ("max_parser_depth", "40", "1000"),
        ("timeout_overflow_mode", "break", "throw"),
        ("timeout_before_checking_execution_speed", "1", "10"),
        ("insert_keeper_fault_injection_probability", "0.5", "0"),
        ("allow_experimental_analyzer", "0", "1"),
        ("allow_experimental_parallel_reading_from_replicas", "2", "0"),
        ("allow_experimental_time_series_table", "0", "1"),  # a newer server allows it by itself
        ("compatibility", "22.3", ""),
        ("a_setting_of_a_server_to_come", "1", "0"),
    ],
)
def test_what_nobody_knows_to_be_a_limit_goes_back(name: str, value: str, default: str):
    assert pin([Changed(name, value, default, False)], reader=False) == Pin({name: default}, ())
    assert pin([Changed(name, value, default, True)], reader=False) == Pin({}, (name,))


@pytest.mark.parametrize(
    ("name", "value", "default"),
    [
        ("max_memory_usage", "1000000", "0"),
        ("max_threads", "1", "auto(2)"),
        ("max_execution_time", "60", "0"),
        ("max_bytes_before_external_group_by", "1", "0"),
        ("priority", "5", "0"),
        ("workload", "night", "default"),
        ("log_queries", "0", "1"),
        ("http_receive_timeout", "5", "30"),
        ("keeper_max_retries", "1", "10"),
        ("s3_max_connections", "3", "1024"),
        ("enable_filesystem_cache", "0", "1"),
        ("insert_quorum", "2", "0"),
        ("select_sequential_consistency", "1", "0"),
        ("allow_experimental_time_series_table", "1", "0"),
        ("allow_suspicious_codecs", "1", "0"),
        ("readonly", "2", "0"),
    ],
)
def test_what_a_profile_is_for_stays(name: str, value: str, default: str):
    for fixed in (False, True):
        assert pin([Changed(name, value, default, fixed)], reader=False) == Pin({}, ())


def test_what_the_server_lets_nobody_set_back():
    changed = [Changed("force_data_skipping_indices", "x", "", False)]
    assert (
        pin(changed, reader=False) == pin(changed, reader=True) == Pin({}, ("force_data_skipping_indices",))
    )


def test_who_may_only_read_sets_nothing_and_needs_what_decides_the_rows():
    changed = [
        Changed("readonly", "1", "0", True),
        Changed("max_block_size", "1000", "65409", True),
        Changed("final", "1", "0", True),
    ]
    assert pin(changed, reader=True) == Pin({}, ("final",))
