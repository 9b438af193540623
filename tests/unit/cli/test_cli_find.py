"""`sluice find` out of a lake alone: a table of words, JSON, exit codes, and text that data brought."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.cli.commands import commands
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.errors import WrongUse
from tests.support.landing_world import GAP, START, World, event, hours

HOSTILE = "a\x1b[1mb\u202ec"
CONFIG = """
kafka: [{cluster: dc1, bootstrap: "127.0.0.1:1", topics: [bids]}]
event: {type: {field: type}, time: {field: at}}
lake: file://LAKE
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Four records of one hour: of a hostile type, no JSON, a gap, and a click."""
    config = tmp_path / "p.yaml"
    config.write_text(CONFIG.replace("LAKE", f"{tmp_path}/lake"))
    spec = read(config)
    hostile = json.dumps({"type": HOSTILE, "at": "2026-01-01T00:05:00Z"}).encode()
    log = [(hostile, event()[1]), (b"no JSON", event()[1]), (b"gap", event()[1]), event("click", 7, n=1)]
    world = World({("dc1", "bids"): [[(GAP if value == b"gap" else value, at) for value, at in log]]})
    world.resolve(spec, open_lake(spec), hours(1))
    world.land(spec, open_lake(spec), hours(1))
    return ["find", "p", "--config", str(config)]


def run(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        commands(words)
    assert ended.value.code in ((0, None) if code == 0 else (code,))
    return capsys.readouterr().out


def test_a_click(words, capsys):
    lines = run([*words, "bids:0:3"], capsys).splitlines()
    assert lines[0] == "dc1/bids:0:3: landed, in no table"
    assert lines[2].startswith("slice: 2026-01-01T00Z of dc1, topic id id-bids")
    (path,) = Path(words[-1]).parent.glob("lake/p/type=click/*/*/*.parquet")
    file = str(path).partition("/lake/p/")[2]
    at = "event time 2026-01-01T00:07:00+00:00"
    assert lines[4] == f"row: type click, {at}: {file}, row group 0, row 0"


def test_text_that_data_brought(words, capsys):
    shown = run([*words, "bids:0:0"], capsys)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "type a\\x1b[1mb\\u202ec" in shown
    (found,) = json.loads(run([*words, "bids:0:0", "--json"], capsys))
    assert found["rows"][0]["type"] == HOSTILE


def test_json(words, capsys):
    (found,) = json.loads(run([*words, "bids:0:1", "--json"], capsys))
    assert (found["outcome"], found["slice"], found["rows"][0]["reason"]) == (
        "rejected",
        "2026-01-01T00Z",
        "not JSON",
    )
    assert (found["cluster"], found["topic"], found["partition"], found["offset"]) == ("dc1", "bids", 0, 1)


def test_no_record_exits_with_1(words, capsys):
    assert "a gap" in run([*words, "bids:0:2"], capsys, 1)
    around = ["--around", START.isoformat()]
    assert run([*words, "--field", "n=2", *around], capsys, 1) == ""


def test_by_field_and_key(words, capsys):
    around = ["--around", START.isoformat(), "--json"]
    (by_field,) = json.loads(run([*words, "--field", "n=1", *around], capsys))
    (by_key,) = json.loads(run([*words, "--key", "k3", *around], capsys))
    assert by_field == by_key
    assert (by_key["offset"], by_key["slice"]) == (3, "2026-01-01T00Z")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "name one of"),
        (["--key", "k"], "name the time"),
        (["bids:0:1", "--key", "k"], "a place needs no --key"),
        (["bids:0"], "is no TOPIC:PARTITION:OFFSET"),
        (["other:0:1"], "has never read topic 'other'"),
        (["--key", "k", "--around", "soon"], "is not an instant"),
    ],
)
def test_wrong_use(words, more: list[str], why: str):
    with pytest.raises(WrongUse, match=why):
        commands([*words, *more], standalone_mode=False)
