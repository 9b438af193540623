"""`sluice forget` deletes nothing that it was not told to delete."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli import forget as module
from sluice.cli.commands import commands
from sluice.errors import WrongUse
from sluice.flow import forget as forget_due
from sluice.flow.forget import Forgetting
from tests.support.landing_world import START, hours
from tests.support.page_world import unit

FILE = """\
kafka: [{cluster: dc1, bootstrap: "nowhere:1", topics: [bids]}]
event: {type: {field: type}, time: {field: at}}
"""


def asked(folder: Path, *words: str, keep: str = "keep: {lake: 400d}\n"):
    file = folder / "p.yaml"
    file.write_text(f"{FILE}lake: file://{folder}/lake\n{keep}")
    return CliRunner().invoke(commands, ["forget", "p", "--config", str(file), *words])


def test_a_pipeline_that_keeps_everything(tmp_path: Path):
    for keep in ("", "keep: {tables: 400d}\n"):
        refused = asked(tmp_path, "--yes", keep=keep).exception
        assert isinstance(refused, WrongUse)
        assert str(refused) == "pipeline p keeps all files: set `keep`, such as `keep: {lake: 400d}`"


def test_without_a_terminal_it_has_to_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ranges: list[object] = []

    def due(pipeline, lake, now, only):
        ranges.append(only)
        return [hours(2)]

    monkeypatch.setattr(forget_due, "due_windows", due)
    monkeypatch.setattr(forget_due, "forget_due", lambda *_: pytest.fail("it was not told to"))
    refused = asked(tmp_path).exception
    assert isinstance(refused, WrongUse) and "add --yes" in str(refused)
    done = Forgetting([unit(0), unit(1)], 7, 900, {unit(2): "it is landed: a table lacks it"})
    monkeypatch.setattr(forget_due, "forget_due", lambda *_: done)
    ran = asked(tmp_path, "--yes", "--from", START.isoformat(), "--to", START.add(hours=2).isoformat())
    assert ran.exit_code == 0 and [str(one) for one in ranges] == ["None", str(hours(2))]
    assert ran.stdout.splitlines() == [
        "2026-11-20T12Z/dc1 keeps its files: it is landed: a table lacks it",
        "units forgotten: 2 (from 2026-11-20T10Z/dc1 to 2026-11-20T11Z/dc1)",
        "files: 7",
        "bytes: 900",
        "units that wait: 1",
    ]


def test_nothing_is_due(tmp_path: Path):
    ran = asked(tmp_path)
    assert (ran.exit_code, ran.stdout.splitlines()[0]) == (0, "units forgotten: 0")
    assert module.forget.__doc__
