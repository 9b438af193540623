"""What a pipeline file sets, what holds without it, and where each value is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.explain import explain
from sluice.config.mistakes import keys
from sluice.config.pipeline import Pipeline

FILE = """\
kafka:
  - cluster: dc1
    bootstrap: ${SLUICE_VAR_HOST:-kafka}:${SLUICE_VAR_PORT}
    topics: [events]
event: {type: {field: type}, time: {field: at}}
lake: file:///lake
tables:
  click: e.clicks
  "*": {table: e.other, columns: {n: a.n}}
settle: 5m
"""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, tuple[str, str]]:
    path = tmp_path / "ads.yaml"
    path.write_text(FILE)
    return {one.key: (one.value, one.source) for one in explain(path, {"SLUICE_VAR_PORT": "9092"})}


@pytest.mark.parametrize(
    ("key", "value", "source"),
    [
        ("kafka[0].cluster", "dc1", "line 2"),
        ("kafka[0].bootstrap", "kafka:9092", "line 3, SLUICE_VAR_HOST, SLUICE_VAR_PORT"),
        ("kafka[0].topics", "[events]", "line 4"),
        ("kafka[0].isolation", "read_committed", "default"),
        ("event.type.field", "type", "line 5"),
        ("event.time.record", "false", "default"),
        ("event.registry", "", "default"),
        ("tables.click", "e.clicks", "line 8"),
        ("tables.*.table", "e.other", "line 9"),
        ("tables.*.columns", "{n: a.n}", "line 9"),
        ("settle", "5m", "line 10"),
        ("slice", "1h", "default"),
        ("max_record", "64MiB", "default"),
        ("max_late", "none", "default"),
        ("start", "", "default"),
        ("rollups", "", "default"),
        ("clickhouse.connection", "clickhouse_default", "default"),
        ("clickhouse.lease", "30s", "default"),
    ],
)
def test_a_setting(settings: dict[str, tuple[str, str]], key: str, value: str, source: str):
    assert settings[key] == (value, source)


def test_no_key_is_left_out(settings: dict[str, tuple[str, str]]):
    told = {key.partition(".")[0].partition("[")[0] for key in settings}
    assert told == {key.name for key in keys(Pipeline)}
