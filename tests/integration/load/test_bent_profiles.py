"""A user's profile may say what it likes of any setting: the right rows, or a refusal before any is gone."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.connect import stays
from tests.integration.bent_profiles import Bent, users
from tests.integration.flipped_settings import flips, grouped
from tests.integration.landed import World, client_of

pytestmark = pytest.mark.integration

# Each of these has changed a value, refused a statement after the revoke, or made advice wrong.
HARMED = {
    "offset": "1",
    "additional_result_filter": "0",
    "allow_simdjson": "0",
    "asterisk_include_virtual_columns": "1",
    "enable_lightweight_delete": "0",
    "lightweight_delete_mode": "lightweight_update_force",
    "rewrite_in_to_join": "1",
    "data_type_default_nullable": "1",
    "force_optimize_projection": "1",
    "implicit_transaction": "1",
    "max_parser_depth": "40",
    "input_format_parquet_allow_missing_columns": "0",
    "inject_random_order_for_select_without_order_by": "1",
    "describe_include_subcolumns": "1",
    "ignore_drop_queries_probability": "1",
    "memory_tracker_fault_probability": "1",
}

TEMPORARY = "SELECT name FROM system.tables WHERE database = 'sluice' AND match(name, '^(fence|tmp)_')"


@pytest.fixture
def bent(start_clickhouse_server, tmp_path, monkeypatch, name):
    def start(profiles) -> Bent:
        server = start_clickhouse_server(users=users(profiles))
        return Bent(server, World(tmp_path, client_of(server), name), monkeypatch.setenv)

    return start


@pytest.mark.long
def test_settings_that_have_done_harm(bent):
    world = bent({"harmed": HARMED, "old": {"compatibility": "22.3"}})
    assert [world.outcome(login) for login in ("harmed", "old")] == ["", ""]
    assert world.plain.sql(TEMPORARY) == []


@pytest.mark.long  # some twenty minutes
def test_every_setting_of_the_server_flipped(bent, start_clickhouse_server):
    """In groups, which are halved where a load is refused, down to the setting that refuses it."""
    groups = grouped(flips(client_of(start_clickhouse_server())))
    world = bent({group.login: group.settings for group in groups})
    refused: dict[tuple[str, str], str] = {}
    for group in groups:
        if group.whole:
            refused |= world.refusing(group)
    for (name, value), said in refused.items():
        print(f"{name} = {value}: {said}")
    assert {pair: said for pair, said in refused.items() if not said.startswith("refused: ")} == {}
    late = {name for (name, _), said in refused.items() if ", connecting: " not in said}
    assert {name for name in late if not stays(name)} == set()
