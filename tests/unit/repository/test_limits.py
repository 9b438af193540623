"""docs/guide/limits.md: each bound has its test; those that have no other place are here."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from sluice.config.event import Event
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import REASON
from sluice.flow.land.task.times import TimeBounds
from sluice.flow.verify import verdict as summary
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.verdict import Verdict
from sluice.slices import Slice, SliceRange
from tests.support.landing_world import record_table

ROOT = Path(__file__).parents[3]
ROWS = re.findall(r"^\| (?!what|---)(.+) \|$", (ROOT / "docs" / "guide" / "limits.md").read_text(), re.M)
EVENT = Event.model_validate({"type": {"field": "type"}, "time": {"field": "at"}})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:40])
def test_each_bound_has_its_test(row: str):
    cells = row.split(" | ")
    assert len(cells) == 4 and all(cells)
    file, _, name = cells[-1].partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.M), cells[-1]


def test_it_is_found():
    assert len(ROWS) > 25
    assert "docs/guide/limits.md" in (ROOT / "README.md").read_text()


def refused(*values: bytes, bounds: TimeBounds | None = None) -> dict[int, str]:
    _, rejected = Parser(EVENT, bounds=bounds).split(record_table(values))
    columns = ([] if rejected is None else rejected[name].to_pylist() for name in ("_offset", REASON))
    return dict(zip(*columns, strict=True))


def event(kind: str = "a", at: str = "2026-01-01T00:00:00Z", more: str = "") -> bytes:
    return f'{{"type":"{kind}","at":"{at}"{more}}}'.encode()


@pytest.mark.parametrize(
    ("text", "most"), [("x", 200), ("é", 100), ("/", 66), ("日", 66), ("\ufffe", 22), ("🙂", 50)]
)
def test_the_text_of_a_type(text: str, most: int):
    """In bytes of the folder's name: those that are escaped count as they are there."""
    assert refused(event(text * most), event(text * (most + 1))) == {1: "type too long"}


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_the_nesting_of_an_event(brackets: str):
    """The event itself is a level."""
    opening = "[" if brackets == "[]" else '{"a":'
    most, more, many = (f',"x":{opening * n}1{brackets[1] * n}' for n in (899, 900, 100_000))
    found = refused(event(more=most), event(more=more), event(more=many))
    assert found == {1: "nested too deep", 2: "nested too deep"}


def test_an_event_that_is_too_deep_with_a_field_that_is_there_twice():
    """The first reason holds, and no reader is asked for the second."""
    many = f',"type":"b","x":{"[" * 5_000}{"]" * 5_000}'
    assert refused(event(), event(more=many), event(more=',"type":"b"')) == {
        1: "nested too deep",
        2: "a field is there twice",
    }


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59.999Z", None),
        ("0000-12-31T23:59:59Z", "time not understood"),
        ("10000-01-01T00:00:00Z", "time not understood"),
    ],
)
def test_the_time_of_an_event(at: str, reason: str | None):
    assert refused(event(at=at)) == ({0: reason} if reason else {})
    bounds = TimeBounds([Slice(pendulum.datetime(2025, 12, 31, 23))], timedelta(0), None)
    edge, beyond = event(at="2026-01-01T00:00:00Z"), event(at="2026-01-01T00:00:00.001Z")
    assert refused(edge, beyond, bounds=bounds) == {1: "time out of range"}


@pytest.mark.parametrize(("found", "kept"), [(summary.MOST, summary.MOST), (summary.MOST + 1, summary.MOST)])
def test_open_anomalies(found: int, kept: int):
    """Those that were open before stay, and the look says how many it has found."""
    start = pendulum.datetime(2026, 1, 1)
    look = summary.verification_of(SliceRange(start, start.add(hours=1)), 1, 1, found, start)
    some = [
        Anomaly(AnomalyKind.ROWS_MISSING, "1", "0", type=f"t{n}", slice="2026-01-01T00Z")
        for n in range(found)
    ]
    verdict = summary.after(Verdict(), look, [summary.opened_by(one, look) for one in some])
    assert len(verdict.anomalies) == kept and verdict.verifications[-1].found == found
    assert [one.place for one in verdict.anomalies[:2]] == [one.place for one in some[:2]]
    assert summary.decode(summary.encode(verdict), "") == verdict
