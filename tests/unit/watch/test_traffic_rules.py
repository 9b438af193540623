"""Too few events and too many rejects, from values."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.manifest import LandedFile, Manifest, OffsetRange, encode
from sluice.slices import HOUR, Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import LedgerRow
from sluice.state.months import note
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch import expected
from sluice.watch.expected import HISTORY_DAYS, RowHistory, SliceRows, keep, read_history, rows_of
from sluice.watch.problems import Problem, ProblemKind, ProblemSource, to_judge
from sluice.watch.rules import rejects, too_few
from tests.support.long_form import per_commit
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline
from tests.unit.watch.test_expected import month

NOW = pendulum.datetime(2026, 11, 20)
TYPES = {"bid": 40_000, "click": 3_000, "view": 9_000, "rare": 5}


def pieces(hours: int) -> list[Slice]:
    return [Slice(NOW.add(hours=-hours + n)) for n in range(hours)]


def history(
    change: Callable[[str, int, int], int] = lambda name, back, rows: rows, days: int = 42
) -> RowHistory:
    """So many days; `change` gets a type, how many hours back, and the usual rows, with 3 % noise."""
    dice, found = random.Random(7), {}
    for n, piece in enumerate(hours := pieces(days * 24)):
        usual = {name: round(rows * dice.gauss(1, 0.03)) for name, rows in TYPES.items()}
        types = {name: change(name, len(hours) - n, rows) for name, rows in usual.items()}
        found[piece] = SliceRows(sum(types.values()), {name: rows for name, rows in types.items() if rows})
    return RowHistory(found)


def few(spec: Pipeline, seen: RowHistory) -> list[Problem]:
    """As a watch judges it that has run after each hour."""
    return list(too_few(spec, seen, to_judge(seen.slices, {})))


def places(problems: list[Problem]) -> list[str]:
    return [f"{problem.kind}: {problem.place}" for problem in problems]


def test_what_is_usual_is_no_problem():
    assert few(pipeline(), history()) == []


def test_two_fifths_less_of_one_type_name_it_with_figures():
    (found,) = few(pipeline(), history(lambda t, back, n: n * 6 // 10 if (t, back) == ("click", 1) else n))
    assert (found.kind, found.place, found.sources) == (ProblemKind.FEW, "type click", (ProblemSource.LAKE,))
    assert found.message.startswith("slice 2026-11-19T23Z brought 1,")
    assert "% of the 2,9" in found.message or "% of the 3,0" in found.message


@pytest.mark.parametrize(("back", "there"), [(1, True), (3, True), (4, False)])
def test_it_is_over_three_hours_later(back: int, there: bool):
    short = history(lambda t, ago, n: n // 2 if (t, ago) == ("view", back) else n)
    assert places(few(pipeline(), short)) == (["too few events: type view"] if there else [])


def test_a_type_that_no_longer_comes_is_short():
    (found,) = few(pipeline(), history(lambda t, back, n: 0 if t == "view" and back <= 2 else n))
    assert found.place == "type view"
    assert "brought 0 rows, 0% of" in found.message
    assert "so did 1 of the 2 others since slice 2026-11-19T21Z: inspect" in found.message


@pytest.mark.parametrize("seed", per_commit(range(2)))
def test_each_hour_of_a_day_is_quiet_and_a_drop_in_it_names_its_type(seed: int):
    """42 days of four types with their own noise. The watch runs after each of the last 24 hours; then one
    type is two fifths short in that hour."""
    volumes = {"bid": 90_000, "click": 1_500, "view": 20_000, "win": 4_000}
    series = {name: month(seed * 10 + n, rows, 42) for n, (name, rows) in enumerate(volumes.items())}
    starts = sorted(series["bid"])
    slices = {Slice(pendulum.from_timestamp(at)): {t: series[t][at] for t in volumes} for at in starts}
    dice, hours = random.Random(seed), list(slices)
    for n, piece in enumerate(hours[-24:]):
        before = {one: rows for one, rows in slices.items() if one <= piece}
        assert few(pipeline(), of_types(before)) == [], piece
        name = list(volumes)[n % 4]
        left = sum(dice.random() >= 0.4 for _ in range(before[piece][name]))
        short = before | {piece: before[piece] | {name: left}}
        assert places(few(pipeline(), of_types(short))) == [f"too few events: type {name}"], piece


def of_types(slices: dict[Slice, dict[str, int]]) -> RowHistory:
    return RowHistory({piece: SliceRows(sum(rows.values()), rows) for piece, rows in slices.items()})


def test_many_types_are_one_problem():
    (found,) = few(pipeline(), history(lambda t, back, n: n // 2 if back == 1 else n))
    assert found.place == "all types"
    assert "short are 3 of 4 types" in found.message  # of 5 rows an hour nothing can be said


@pytest.mark.parametrize(("days", "there"), [(27, False), (28, True)])
def test_a_short_history_says_nothing(days: int, there: bool):
    """The seventh day that can be compared begins after 27 days."""
    short = history(lambda t, back, n: n // 2 if (t, back) == ("bid", 1) else n, days)
    assert bool(few(pipeline(), short)) is there


def test_the_file_says_what_is_too_few():
    short = history(lambda t, back, n: n * 6 // 10 if (t, back) == ("click", 1) else n)
    assert few(pipeline(alarms={"fewer": "none"}), short) == []
    assert few(pipeline(alarms={"fewer": 0.5}), short) == []
    assert places(few(pipeline(alarms={"fewer": 0.35}), short)) == ["too few events: type click"]


def test_a_hostile_type_is_visible_in_the_place():
    short = history(lambda t, back, n: n // 2 if (t, back) == ("bid", 1) else n)
    hostile = {
        piece: SliceRows(
            one.rows, {"b\x1b[2J" if name == "bid" else name: n for name, n in one.types.items()}
        )
        for piece, one in short.slices.items()
    }
    assert places(few(pipeline(), RowHistory(hostile))) == ["too few events: type b\\x1b[2J"]


def manifest(
    piece: Slice, cluster: str = "dc1", rejected_records: dict[str, int] | None = None, **rows: int
) -> Manifest:
    files = tuple(
        LandedFile(
            f"type={t}/date={piece.start:%Y-%m-%d}/hour={piece.start:%H}/{piece.id}-{cluster}-1-0.parquet",
            f"_attempts/{piece.id}/a/{t}.parquet",
            t,
            f"{piece.start:%Y-%m-%dT%H}",
            n,
            n,
            "",
        )
        for t, n in rows.items()
    )
    read = sum(rows.values()) + sum((rejected_records or {}).values())
    ranges = (OffsetRange("bids", "u", 0, 0, read),)
    return made_manifest("p", piece.id, cluster, 1, "a", ranges, files, (), read, rejected_records or {}, 0)


def test_rows_of_clusters_add_up_and_the_largest_types_are_named(monkeypatch: pytest.MonkeyPatch):
    piece = Slice(NOW)
    monkeypatch.setattr(expected, "MOST_TYPES", 2)
    one = rows_of([manifest(piece, a=5, b=7), manifest(piece, "dc2", a=4, c=1, d=0)])
    assert (one.rows, one.types, one.has_all) == (17, {"a": 9, "b": 7}, False)
    whole = rows_of([manifest(piece, a=5, b=7)])
    found = RowHistory({piece: one, Slice(NOW.add(hours=1)): whole}).by_type()
    at = int(NOW.timestamp())
    assert found == {"a": {at: 9, at + 3600: 5}, "b": {at: 7, at + 3600: 7}}
    assert RowHistory({piece: whole, Slice(NOW.add(hours=1)): rows_of([manifest(piece, c=2)])}).by_type() == {
        "a": {at: 5, at + 3600: 0},
        "b": {at: 7, at + 3600: 0},
        "c": {at: 0, at + 3600: 2},
    }


def landed(unit: Unit, found: Manifest) -> UnitStatus:
    return UnitStatus(unit, UnitState.COMPLETE, found.ranges, (), found, {}, (), 1)


def test_older_slices_are_read_from_their_manifests_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """60 hours have landed; the watch sees the last 24, and reads 20 of the others at once."""
    lake, spec = FolderLake(tmp_path / "p"), pipeline()
    manifests = {Unit(piece, "dc1"): manifest(piece, click=100 + n) for n, piece in enumerate(pieces(60))}
    for unit, one in manifests.items():
        assert lake.create(layout.manifest(unit.slice.id, "dc1"), encode(one))
    note(lake, [landed(unit, one) for unit, one in manifests.items()])
    recent = SliceRange(NOW.add(hours=-24), NOW)
    fresh = {unit: one for unit, one in manifests.items() if unit.slice.start >= recent.start}
    monkeypatch.setattr(expected, "_READ_AT_ONCE", 20)
    seen = []
    for _ in range(3):
        found = read_history(spec, lake, recent, Boundaries(), fresh)
        keep(lake, found)
        seen.append(len(found.slices))
    assert seen == [44, 60, 60]
    assert found.new == {}
    assert found.slices == {
        unit.slice: SliceRows(100 + n, {"click": 100 + n}) for n, unit in enumerate(manifests)
    }
    assert len(list(recent)) == 24
    assert HISTORY_DAYS * timedelta(days=1) > 60 * HOUR


def test_a_slice_that_a_cluster_lacks_is_unknown(tmp_path: Path):
    clusters = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
    spec, (first, second) = pipeline(kafka=clusters), pieces(2)
    fresh = {Unit(first, c): manifest(first, c, click=3) for c in ("dc1", "dc2")}
    fresh[Unit(second, "dc1")] = manifest(second, click=3)
    found = read_history(spec, FolderLake(tmp_path), SliceRange(first.start, NOW), Boundaries(), fresh)
    assert found.slices == {first: SliceRows(6, {"click": 6})}


def test_a_damaged_history_says_what_to_do(tmp_path: Path):
    lake = FolderLake(tmp_path)
    assert lake.create("_alarms/rows-2026-11.json", b"{")
    with pytest.raises(Exception, match=r"rows-2026-11.json holds no rows .* delete it"):
        read_history(pipeline(), lake, SliceRange(NOW.add(hours=-1), NOW), Boundaries(), {})


def status(piece: Slice, table: str, rows: int, rejected_rows: int) -> UnitStatus:
    row = LedgerRow(Unit(piece, "dc1"), "1-a", (), rows, rows - rejected_rows, rejected_rows, "", 1)
    return UnitStatus(Unit(piece, "dc1"), UnitState.COMPLETE, (), (), None, {table: row}, (), 1)


@pytest.mark.parametrize(
    ("records", "rejected_records", "there"),
    [(990, 10, False), (989, 11, True), (90, 9, False), (50, 10, True), (0, 0, False), (0, 10, True)],
)
def test_rejected_records_above_the_share_are_a_problem(records: int, rejected_records: int, there: bool):
    (piece,) = pieces(1)
    found = {
        Unit(piece, "dc1"): manifest(piece, rejected_records={"not JSON": rejected_records}, click=records)
    }
    assert places(list(rejects(pipeline(), found, []))) == (["rejects above share: records"] if there else [])


@pytest.mark.parametrize("rejected", [0, 20])
def test_tombstones_are_no_rejects(rejected: int):
    """A compacted topic may have more deletions than rows, for ever."""
    (piece,) = pieces(1)
    reasons = {"no value": 5_000, "not JSON": rejected}
    problems = list(
        rejects(pipeline(), {Unit(piece, "dc1"): manifest(piece, rejected_records=reasons, click=20)}, [])
    )
    assert [problem.message for problem in problems] == (
        []
        if not rejected
        else [
            "20 of 40 of slice 2026-11-19T23Z, 50.0%, are in `_rejected/` with their reasons (20 not JSON); "
            "the bound is 1.0%"
        ]
    )


def test_it_names_the_worst_of_the_newest_hours_and_the_reasons():
    hours = pieces(5)
    shares = [900, 20, 80, 30, 0]
    found = {
        Unit(piece, "dc1"): manifest(piece, rejected_records={"not JSON": n, "no time": n // 4}, click=1_000)
        for piece, n in zip(hours, shares, strict=True)
    }
    (problem,) = rejects(pipeline(), found, [])
    assert problem.message == (
        "100 of 1,100 of slice 2026-11-19T21Z, 9.1%, are in `_rejected/` with their reasons (80 not JSON; "
        "20 no time); the bound is 1.0%"
    )


def test_rejects_of_hours_without_a_watch_are_judged_too():
    """Six hours ago, when nothing was judged, half of the records were no rows."""
    hours = pieces(10)
    found = {
        Unit(piece, "dc1"): manifest(
            piece, rejected_records={"not JSON": 900 if piece == hours[4] else 0}, click=900
        )
        for piece in hours
    }
    assert list(rejects(pipeline(), found, [])) == []
    (problem,) = rejects(pipeline(), found, [], hours[3:])
    assert problem.message.startswith("900 of 1,800 of slice 2026-11-19T18Z, 50.0%")


def test_rejected_rows_are_judged_table_by_table_and_not_without_clickhouse():
    (piece,) = pieces(1)
    found = [status(piece, "e.clicks", 1_000, 11), status(piece, "e.other", 1_000, 10)]
    (problem,) = rejects(pipeline(), {}, found)
    assert (problem.place, problem.sources) == (
        "table e.clicks",
        (ProblemSource.LAKE, ProblemSource.CLICKHOUSE),
    )
    assert problem.message == (
        "11 of 1,000 of slice 2026-11-19T23Z, 1.1%, do not fit it; `sluice doctor p` names columns and "
        "reasons; the bound is 1.0%"
    )
    assert list(rejects(pipeline(alarms={"rejected": 0.02}), {}, found)) == []
    assert list(rejects(pipeline(alarms={"rejected": "none"}), {}, found)) == []
