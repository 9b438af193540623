"""What SQLMesh reads: external models, and a signal that holds an interval back until its hours are whole."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from sluice.clients.clickhouse.sql import Sql
from sluice.config.pipeline import Pipeline
from sluice.mart_sources import MartSource
from sluice.sqlmesh_files import sqlmesh_files

DAY = datetime(2026, 11, 20, tzinfo=UTC)
QUERY = """SELECT '"', '''' , '\\''"""
TABLE = MartSource(
    "adx.clicks", 'Events "click".', [("n b", "UInt8"), ("half", "Array(BFloat16)")], Sql(QUERY)
)


def pipeline(length: str = "1h", name: str = "adx.eu") -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": name,
            "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": ["bids"]}],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
            "slice": length,
        }
    )


def written(length: str, patch: pytest.MonkeyPatch) -> Callable[..., list]:
    """The signal, as SQLMesh imports it."""
    sqlmesh = ModuleType("sqlmesh")
    sqlmesh.signal = lambda: lambda function: function  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "sqlmesh", sqlmesh)
    found: dict = {}
    exec(sqlmesh_files(pipeline(length), [TABLE])["signals/sluice_adx_eu.py"], found)  # noqa: S102
    return found["sluice_adx_eu"]


def at(hours: float) -> datetime:
    return DAY + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("length", "whole", "asked", "ready"),
    [
        ("1h", [0, 1], [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2)]),
        ("1h", [0, 2], [(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)]),
        ("1h", range(24), [(0, 24)], [(0, 24)]),
        ("1h", range(23), [(0, 24)], []),
        ("15m", [0, 0.25, 0.5, 0.75, 1, 1.25, 1.75], [(0, 1), (1, 2)], [(0, 1)]),
        ("1h", [0], [(0, 0.5), (0.5, 1), (1, 1.5)], [(0, 0.5), (0.5, 1)]),  # of an hour that is whole
        ("1d", [0], [(0, 1), (23, 24), (24, 25)], [(0, 1), (23, 24)]),
        ("1h", [], [(0, 1)], []),
    ],
)
def test_an_interval_is_ready_once_each_of_its_hours_is_whole(
    monkeypatch: pytest.MonkeyPatch, length: str, whole, asked, ready
):
    queries = []

    def fetchall(query: str) -> list[tuple[int]]:
        queries.append(query)
        return [(int(at(hour).timestamp()),) for hour in whole]

    signal = written(length, monkeypatch)
    batch = [(at(start), at(end)) for start, end in asked]
    context = SimpleNamespace(engine_adapter=SimpleNamespace(fetchall=fetchall))
    assert signal(batch, context, "adx.clicks") == [(at(start), at(end)) for start, end in ready]
    assert queries == [QUERY]
    with pytest.raises(KeyError):
        signal(batch, context, "adx.views")


def test_an_external_model_is_the_view_with_the_columns_that_sqlmesh_can_read():
    files = sqlmesh_files(pipeline(), [TABLE])
    assert list(files) == ["external_models/sluice_adx_eu.yaml", "signals/sluice_adx_eu.py"]
    [model] = yaml.safe_load(files["external_models/sluice_adx_eu.yaml"])
    assert model == {
        "name": "`sluice`.`adx.clicks`",
        "dialect": "clickhouse",
        "description": 'Events "click".',
        "columns": {"n b": "UInt8"},
    }


def test_files_of_two_pipelines_are_told_apart_by_their_first_line():
    """Their names may be one: adx.eu and adx_eu."""
    first, second = (sqlmesh_files(pipeline(name=name), [TABLE]) for name in ("adx.eu", "adx_eu"))
    assert first.keys() == second.keys()
    assert all(first[path].splitlines()[0] != second[path].splitlines()[0] for path in first)
