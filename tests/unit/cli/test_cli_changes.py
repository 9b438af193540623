"""`sluice status --changes`, out of a lake alone."""

from __future__ import annotations

import json
from pathlib import Path

import pendulum
import pytest

from sluice.cli.commands import commands
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.errors import WrongUse
from sluice.manifest import FieldSeen, TypeFields, encode
from sluice.slices import Slice
from sluice.state.additions import Addition, announce, confirm
from tests.unit.cli.test_cli_status import PIPELINE
from tests.unit.test_manifest import example

START = pendulum.datetime(2026, 11, 20)
RANGE = ["--from", "2026-11-20T00:00Z", "--to", "2026-11-20T04:00Z"]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Of four hours, the third brings a field and the fourth loses another."""
    config = tmp_path / "p.yaml"
    config.write_text(PIPELINE.replace("file:///lake", f"file://{tmp_path}/lake"))
    lake = open_lake(read(config))
    names = (["id", "ref"], ["id", "ref"], ["id", "ref", "a\x1b[1mb"], ["id", "a\x1b[1mb"])
    for hour, own in enumerate(names):
        kinds = {name: "string" if name in ("id", "ref") else "integer" for name in own}
        fields = {name: FieldSeen(100, {kind: 100}) for name, kind in kinds.items()}
        one = example(
            pipeline="p",
            slice=Slice(START.add(hours=hour)).id,
            files=(),
            rejected=(),
            fields=(TypeFields("click", 100, True, fields),),
        )
        lake.create(layout.manifest(one.slice, one.cluster), encode(one))
    return ["status", "p", "--config", str(config), "--changes"]


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        commands(words)
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


NEW = (
    "2026-11-20T02Z/dc1: type click: field `a\\x1b[1mb` is new: in 100 of 100 rows, 100 % (integer); "
    "before in 0 of 200 rows, 0 %"
)
GONE = (
    "2026-11-20T03Z/dc1: type click: field `ref` vanished: in none of 100 rows, was in 300 of 300 rows, "
    "100 % (string)"
)


def test_a_line_for_each_change(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, *RANGE], capsys).splitlines() == [
        NEW,
        GONE,
        "p [2026-11-20T00:00Z, 2026-11-20T04:00Z): 2 changes of fields",
    ]
    part = [*words, "--from", "2026-11-20T03:00Z", "--to", "2026-11-20T04:00Z"]
    assert run(part, capsys).splitlines()[0] == GONE


ADDED = "2026-11-20T02Z: table e.clicks: column `a\\x1b[1mb` Nullable(UInt64) was added: in 100 of 100 rows"


def add_column(words: list[str]) -> Addition:
    lake = open_lake(read(Path(words[3])))
    one = Addition(
        "e.clicks",
        "a\x1b[1mb",
        "Nullable(UInt64)",
        "2026-11-20T02Z",
        100,
        100,
        "2026-11-20T03:00:00Z",
        "process 1 on h",
    )
    announce(lake, [one], "")
    confirm(lake, "e.clicks", [one.column], "", 4)
    return one


def test_columns_that_were_added_stand_behind_the_change_that_brought_them(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    add_column(words)
    assert run([*words, *RANGE], capsys).splitlines() == [
        NEW,
        ADDED,
        GONE,
        "p [2026-11-20T00:00Z, 2026-11-20T04:00Z): 2 changes of fields, 1 column added",
    ]
    [added] = json.loads(run([*words, *RANGE, "--json"], capsys))["added"]
    assert (added["column"], added["by"], added["shards"]) == ("a\x1b[1mb", "process 1 on h", {"": 4})


def test_the_same_as_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(run([*words, *RANGE, "--json"], capsys))
    assert answer["changes"][1] == {
        "slice": "2026-11-20T03Z",
        "cluster": "dc1",
        "kind": "field vanished",
        "type": "click",
        "field": "ref",
        "rows": 100,
        "having": 0,
        "rows_before": 300,
        "having_before": 300,
        "kinds": [],
        "kinds_before": ["string"],
        "likely": "",
        "message": GONE.removeprefix("2026-11-20T03Z/dc1: "),
    }


@pytest.mark.parametrize("other", ["--watch", "--lag"])
def test_it_asks_nobody_but_the_lake(words: list[str], other: str) -> None:
    with pytest.raises(WrongUse, match="--changes answers once"):
        commands([*words, *RANGE, other])
