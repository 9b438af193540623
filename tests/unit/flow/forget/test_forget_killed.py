"""Forgetting that is killed between any two of its steps: no manifest expects a file that is gone, and the
next run ends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy, Fenced
from sluice.flow import forget as module
from sluice.flow.forget import Forgetting, forget_window
from sluice.flow.verify.audit import Findings
from sluice.manifest import Manifest
from sluice.plan.due import KeepEdges, due_slices
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.manifests import read_manifests
from sluice.state.months import read_summaries
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.unit.flow.land.test_landing_crashes import Killed, Mortal

BIDS = ("dc1", "bids")
SLICES = hours(3)
UNITS = [Unit(slice_, "dc1") for slice_ in SLICES]
NOW = START.add(days=399, hours=2)
TABLE = "db.click"
ENOUGH = 60


def spec(**keep: str) -> Pipeline:
    return pipeline(keep=keep or {"lake": "399d"})


def filled() -> tuple[World, MemoryLake]:
    lake = MemoryLake()
    return fill(lake), lake


def fill(lake: Lake) -> World:
    """Lands three hours, of which two are old enough; the marks of their event hours are there."""
    odd = [(b"{oops", stamp) for _, stamp in (event("click", 5), event("click", 65))]
    world = World({BIDS: [[event("click", n * 20, grade=f"g{n}") for n in range(9)], odd]})
    world.resolve(spec(), lake, SLICES)
    world.land(spec(), lake, SLICES)
    for hour in ("00", "01", "02"):
        lake.put(f"type=click/date=2026-01-01/hour={hour}/_SUCCESS", b"")
    return world


def statuses(lake: Lake) -> list[UnitStatus]:
    """As a survey of a server that has loaded everything."""
    return [_status(unit, manifest) for unit, manifest in read_manifests(lake, UNITS).items()]


def _status(unit: Unit, manifest: Manifest) -> UnitStatus:
    row = LedgerRow(unit, manifest.id, ("click",), 3, 3, 0, "t", 1)
    state = UnitState.FORGOTTEN if manifest.forgotten_on else UnitState.COMPLETE
    return UnitStatus(unit, state, manifest.ranges, (), manifest, {TABLE: row}, (), 1)


class Held:
    """A lease; `lost`: another attempt has taken it over."""

    def __init__(self, lost: bool = False) -> None:
        self.lost = lost

    def renew(self) -> None:
        if self.lost:
            raise Fenced("the lease of table db.click is lost")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    lease = Held()

    @contextmanager
    def leases(pipeline: Pipeline, lake: Lake) -> Iterator[list[Held]]:
        yield [lease]

    monkeypatch.setattr(module, "_leases", leases)
    return lease


def forget(
    there: Lake, monkeypatch: pytest.MonkeyPatch, through: Lake | None = None, **keep: str
) -> Forgetting:
    """`through`: the lake as the forgetter has it; surveys read what is `there`."""
    audited = Findings(statuses(there), [], [])
    monkeypatch.setattr(module, "audit", lambda *_, **__: audited)
    monkeypatch.setattr(module, "survey", lambda *_: statuses(there))
    return forget_window(spec(**keep), through or there, SLICES, NOW)


def state(lake: MemoryLake) -> dict[str, bytes]:
    return {key: data for key, (data, _) in lake.objects.items()}


def without_loss(lake: MemoryLake) -> None:
    """Each file that a manifest expects is there, and no event hour is marked of which one is gone."""
    for manifest in read_manifests(lake, UNITS).values():
        for file in manifest.held_files:
            assert file.key in lake.objects, (manifest.slice, file.key)
        for file in manifest.files:
            mark = file.key.rpartition("/")[0] + "/_SUCCESS"
            assert file.key in lake.objects or mark not in lake.objects


def parquet(lake: MemoryLake) -> dict[str, int]:
    """The bytes of each data file."""
    return {key: len(data) for key, data in state(lake).items() if key.endswith(".parquet")}


def begun(lake: MemoryLake) -> set[str]:
    """Slices of which files may be left that no manifest expects."""
    said = {m.slice: m.forgotten for m in read_manifests(lake, UNITS).values()}
    return {name for name, forgotten in said.items() if forgotten and not forgotten.removed}


def found_at_any_age(lake: MemoryLake) -> set[str]:
    """Slices that a later run takes, whose file has no `keep` any more."""
    none = pipeline()
    noted = read_summaries(lake, SLICES)
    return {slice_.id for slice_ in due_slices(none, noted, KeepEdges.of(none.keep, NOW))}


def test_two_hours_are_forgotten_and_the_third_is_too_young(held: Held, monkeypatch):
    _, lake = filled()
    before = read_manifests(lake, UNITS)
    found = forget(lake, monkeypatch)
    assert [str(unit) for unit in found.units] == [str(unit) for unit in UNITS[:2]]
    assert found.files == sum(len(before[unit].all_files) for unit in UNITS[:2]) == 4
    after = read_manifests(lake, UNITS)
    assert {unit: replace(m, forgotten=None) for unit, m in after.items()} == before
    assert after[UNITS[2]] == before[UNITS[2]]
    for unit in UNITS[:2]:
        said = after[unit].forgotten
        assert said is not None
        assert (said.lake, said.tables, said.removed) == (f"{NOW:%Y-%m-%dT%H:%M:%SZ}", (TABLE,), True)
    left = {key for key in lake.objects if key.endswith(".parquet") or key.startswith("type=")}
    hour = "type=click/date=2026-01-01/hour=02/"
    assert left == {f"{hour}_SUCCESS", *(file.key for file in before[UNITS[2]].all_files)}
    again = forget(lake, monkeypatch)
    assert (again.units, again.files) == ([], 0)


@pytest.mark.parametrize(
    "keep", [{"lake": "399d"}, {"lake": "900d", "rejected": "399d"}], ids=["lake", "rejected"]
)
def test_killed_between_any_two_of_its_steps(held: Held, monkeypatch, keep: dict[str, str]):
    _, whole = filled()
    forget(whole, monkeypatch, **keep)
    expected, deaths = set(state(whole)), 0
    for last in range(ENOUGH):
        _, lake = filled()
        try:
            forget(lake, monkeypatch, Mortal(lake, last), **keep)
        except Killed:
            deaths += 1
            without_loss(lake)
            assert begun(lake) <= found_at_any_age(lake)
        else:
            break
        left = parquet(lake)
        finished = forget(lake, monkeypatch, **keep)
        without_loss(lake)
        assert set(state(lake)) == expected, last
        gone = left.keys() - parquet(lake).keys()
        assert (finished.files, finished.bytes) == (len(gone), sum(left[key] for key in gone)), last
        manifests = read_manifests(lake, UNITS)
        assert [m.forgotten for m in manifests.values()] == [
            m.forgotten for m in read_manifests(whole, UNITS).values()
        ]
    assert 5 < deaths < ENOUGH


@pytest.mark.parametrize("keep", [{"lake": "399d"}, {"lake": "900d", "rejected": "399d"}])
def test_killed_and_a_table_is_taken_out_of_the_file(held: Held, monkeypatch, keep: dict[str, str]):
    """What is not deleted is taken back, and what is stays forgotten."""
    ends = set()
    for last in range(ENOUGH):
        _, lake = filled()
        before = state(lake)
        try:
            forget(lake, monkeypatch, Mortal(lake, last), **keep)
        except Killed:
            left = {key for key in before if key.endswith(".parquet")} <= lake.objects.keys()
        else:
            break
        with monkeypatch.context() as patched:
            patched.setattr("tests.unit.flow.forget.test_forget_killed.TABLE", "db.other")
            forget(lake, patched, **keep)
        without_loss(lake)
        assert begun(lake) == set(), last
        ends.add((left, all(m.forgotten is None for m in read_manifests(lake, UNITS).values())))
    assert ends == {(True, True), (True, False), (False, False)}


def test_a_lease_that_was_lost_meanwhile_takes_everything_back(held: Held, monkeypatch):
    _, lake = filled()
    before, held.lost = state(lake), True
    with pytest.raises(Fenced):
        forget(lake, monkeypatch)
    changed = ("_slices", "_summary")
    assert {k: v for k, v in state(lake).items() if not k.startswith(changed)} == {
        k: v for k, v in before.items() if not k.startswith(changed)
    }
    assert found_at_any_age(lake) == set()
    assert [m.forgotten for m in read_manifests(lake, UNITS).values()] == [None] * 3


def test_a_table_that_is_being_loaded_keeps_all_files(monkeypatch):
    @contextmanager
    def leases(pipeline: Pipeline, lake: Lake) -> Iterator[list[Held]]:
        raise Busy("table db.click is being loaded by x")
        yield []

    monkeypatch.setattr(module, "_leases", leases)
    _, lake = filled()
    before = state(lake)
    found = forget(lake, monkeypatch)
    assert (found.units, list(found.waiting.values())) == ([], ["table db.click is being loaded by x"] * 2)
    assert {k: v for k, v in state(lake).items() if not k.startswith("_summary")} == before


def test_what_another_run_has_landed_again_meanwhile_stays(held: Held, monkeypatch):
    world, lake = filled()
    audited = Findings(statuses(lake), [], [])
    monkeypatch.setattr(module, "audit", lambda *_, **__: audited)
    monkeypatch.setattr(module, "survey", lambda *_: statuses(lake))
    world.land(
        spec(), lake, SliceRange(SLICES.start, SLICES.start + timedelta(hours=1)), "reland", "meanwhile"
    )
    found = forget_window(spec(), lake, SLICES, NOW)
    assert [str(unit) for unit in found.units] == [str(UNITS[1])]
    relanded = read_manifests(lake, UNITS)[UNITS[0]]
    assert (relanded.generation, relanded.forgotten) == (2, None)
    without_loss(lake)
