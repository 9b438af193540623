"""A month of hours, out of which exactly those changes are named that a producer has made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

import pendulum
import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.manifest import FieldSeen, Manifest, TypeFields, bounded, encode
from sluice.slices import HOUR, Slice, Unit
from sluice.state import field_changes as history
from sluice.state.field_changes import ChangeKind, UnitChange, changes_of
from tests.support.long_form import per_commit
from tests.unit.test_manifest import example

START = pendulum.datetime(2026, 3, 1)
DAYS = 31
Event = dict[str, object]
Make = Callable[[Random, int, int], Event]
"""From a hour's number and the place of the event in it (per mille)."""
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", dict: "object"}


def usual(random: Random, hour: int, _: int) -> Event:
    """An event of a producer that changes nothing: some of its fields are rare, some come and go."""
    price = random.choice([12, 12.5, 7.25])
    event: Event = {"id": "x", "user_id": random.randrange(10**9), "price": price, "cents": 1250}
    if random.random() < 0.8:
        event["country"] = random.choice(["DE", "AT", None])
    if random.random() < 0.3:
        event["campaign"] = {"id": 7}
    if random.random() < 0.002:
        event["error"] = "timeout"
    if 9 <= hour % 24 < 17 and random.random() < 0.6:
        event["agent"] = "desk"
    if hour // 24 % 7 < 5 and random.random() < 0.4:
        event["office"] = True
    if hour % 96 < 2 and random.random() < 0.5:
        event["batch"] = "b"
    if random.random() < 0.0005:
        event["cents"] = "n/a"
    return event


def rows_of(random: Random, fewest: int) -> int:
    """Some hours have no events, some have few."""
    return random.choice([0, 1, 4, 15, 40, 150, 400, 400]) if not fewest else random.randrange(fewest, 500)


def seen(kind: str, events: list[Event]) -> TypeFields:
    fields = {}
    for name in {name for event in events for name in event}:
        own = [event for event in events if name in event]
        kinds = Counter(KINDS[type(event[name])] for event in own)
        fields[name] = FieldSeen(len(own), kinds, sum(list(event).index(name) for event in own))
    return TypeFields(kind, len(events), True, fields)


def month(make: Make, seed: int, fewest: int = 0) -> dict[Unit, Manifest]:
    random, found = Random(seed), {}
    for hour in range(DAYS * 24):
        types = []
        for kind, rows in (("click", rows_of(random, fewest)), ("view", random.choice([0, 0, 3]))):
            events = [make(random, hour, 1000 * place // rows) for place in range(rows)]
            types += [seen(kind, events)] if events else []
        unit = Unit(Slice(START.add(hours=hour)), "dc1")
        found[unit] = example(
            slice=unit.slice.id, cluster="dc1", files=(), rejected=(), fields=bounded(types)
        )
    return found


def told(lake: FolderLake, manifests: dict[Unit, Manifest], first_day: int) -> list[UnitChange]:
    units = [unit for unit in manifests if unit.slice.start >= START.add(days=first_day)]
    return changes_of(lake, units, manifests, pytest.fail)


@pytest.mark.parametrize("seed", range(6))
def test_a_month_in_which_a_producer_changes_nothing(tmp_path: Path, seed: int) -> None:
    """The first week shows what comes and goes."""
    assert told(FolderLake(tmp_path / "github"), month(usual, seed), first_day=7) == []


ADDED = {f"added{day}": day * 24 + 11 for day in range(9, DAYS, 3)}
RENAMED, RETYPED = 10 * 24 + 5, 20 * 24 + 16


def moving(random: Random, hour: int, place: int) -> Event:
    """Every third day adds a field; in the middle of an hour one is renamed, and another becomes a text."""
    event = usual(random, hour, place)
    if hour * 1000 + place >= RENAMED * 1000 + 500:
        event = {"uid" if name == "user_id" else name: value for name, value in event.items()}
    if hour >= RETYPED and isinstance(event["cents"], int):
        event["cents"] = json.dumps(event["cents"])
    return event | {name: 1 for name, since in ADDED.items() if hour >= since and random.random() < 0.25}


@pytest.mark.parametrize("seed", per_commit(range(3)))
def test_a_month_in_which_fields_are_added_renamed_and_retyped(tmp_path: Path, seed: int) -> None:
    found = told(FolderLake(tmp_path / "github"), month(moving, seed, fewest=200), first_day=8)
    hours = {
        (one.change.kind, one.change.field, one.change.likely): int(
            (one.unit.slice.start - START).total_seconds() // 3600
        )
        for one in found
    }
    assert hours == {
        **{(ChangeKind.NEW, name, ""): hour for name, hour in ADDED.items()},
        (ChangeKind.NEW, "uid", ""): RENAMED,
        (ChangeKind.RENAMED, "user_id", "uid"): RENAMED + 1,
        (ChangeKind.KIND, "cents", ""): RETYPED,
    }
    assert len(found) == len(hours)


def test_one_hour_shows_what_it_shows_in_its_month_and_reads_no_more_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, manifests = FolderLake(tmp_path / "github"), month(moving, 1, fewest=200)
    for unit, manifest in manifests.items():
        lake.create(layout.manifest(unit.slice.id, unit.cluster), encode(manifest))
    reads: list[Unit] = []
    read = history.read_manifest
    monkeypatch.setattr(history, "read_manifest", lambda lake, unit: reads.append(unit) or read(lake, unit))
    retyped = Unit(Slice(START.add(hours=RETYPED)), "dc1")
    whole = [str(one) for one in told(lake, manifests, 8) if one.unit == retyped]
    assert [str(one) for one in changes_of(lake, [retyped], {}, pytest.fail)] == whole != []
    reads.clear()
    quiet = Unit(Slice(START.add(hours=RETYPED + 2)), "dc1")
    assert changes_of(lake, [quiet], {}, pytest.fail) == []
    assert len(reads) == 1 + 24


def test_a_manifest_that_cannot_be_read_is_said_and_passed_over(tmp_path: Path) -> None:
    lake = FolderLake(tmp_path / "github")
    units = [Unit(Slice(START.add(hours=hour)), "dc1") for hour in range(3)]
    fields = [{"id": FieldSeen(100, {"string": 100})}, {}, {"uid": FieldSeen(100, {"string": 100})}]
    for unit, own in zip(units, fields, strict=True):
        one = TypeFields("click", 100, True, own)
        data = encode(example(slice=unit.slice.id, files=(), rejected=(), fields=(one,))) if own else b"{"
        lake.create(layout.manifest(unit.slice.id, unit.cluster), data)
    said: list[str] = []
    (change,) = changes_of(lake, units[2:], {}, said.append)
    assert (change.unit, change.change.kind, change.change.likely) == (units[2], ChangeKind.RENAMED, "uid")
    assert len(said) == 1 and said[0].startswith(f"fields are not compared with those of {units[1]}: ")


@pytest.mark.parametrize(
    ("length", "slices"), [(timedelta(minutes=15), 96), (HOUR, 24), (timedelta(days=1), 24)]
)
def test_a_slice_is_compared_with_a_day_or_24_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: timedelta, slices: int
) -> None:
    at: list[Slice] = []
    one = TypeFields("click", 5, True, {"id": FieldSeen(5, {"string": 5})})
    monkeypatch.setattr(
        history, "read_manifest", lambda lake, unit: at.append(unit.slice) or example(fields=(one,))
    )
    piece = Slice(START, length)
    assert changes_of(FolderLake(tmp_path / "github"), [Unit(piece, "dc1")], {}, pytest.fail) == []
    assert at == [piece, *(Slice(START - number * length, length) for number in range(1, slices + 1))]
