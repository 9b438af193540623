"""`sluice run --backfill`: a fill, then refills until no slice lacks a column that was added."""

from __future__ import annotations

from pathlib import Path

import pendulum
import pytest

from sluice.cli import run
from sluice.errors import WrongUse
from sluice.slices import SliceRange
from sluice.state.unit_state import UnitState
from tests.support.verified import pipeline
from tests.unit.plan.test_plan_actions import status

DAY = pendulum.datetime(2026, 11, 20)
SLICES = SliceRange(DAY, DAY.add(hours=2))
LACKING = status(UnitState.COMPLETE, later={"e.clicks": {"coupon": 3}})
DONE = status(UnitState.COMPLETE)


@pytest.mark.parametrize(
    ("surveys", "refills"),
    [
        ([[DONE]], 0),
        ([[DONE, LACKING], [DONE]], 1),
        ([[LACKING], [LACKING], [DONE]], 2),
        ([[LACKING]] * 9, 5),
    ],
)
def test_it_ends_when_nothing_is_lacking_any_more(surveys, refills, monkeypatch: pytest.MonkeyPatch):
    left, modes = iter(surveys), []

    def steps(spec, path, slices, mode, token, tables):
        modes.append((slices, mode))
        return [DONE], {}

    monkeypatch.setattr("sluice.state.survey.survey", lambda spec, slices: next(left))
    monkeypatch.setattr(run, "_steps", steps)
    found = run._filled(pipeline(), Path("x"), SLICES, None)
    assert modes == [(SLICES, "reload --missing-columns")] * refills
    assert found == ([DONE] if refills else [])


FURTHER = [
    status(UnitState.COMPLETE, hour, later={"e.clicks": {"coupon": 3}} if hour in (-5, -3, 1) else {})
    for hour in range(-6, 3)
]


TOLD = (
    "2 slices outside of the range lack columns that were added: sluice run ads --config 'x y.yaml' "
    "--from 2026-11-19T19:00Z --to 2026-11-19T22:00Z --mode reload --missing-columns"
)


@pytest.mark.parametrize(
    ("additions", "span", "asked", "told"),
    [
        (["one"], (-6, 3), (-6, 3), [TOLD]),
        (["one"], (-20_000, 20_000), (-10_000, 10_002), [TOLD]),
        (["one"], (-20_000, -10_000), None, []),
        ([], (-6, 3), None, []),
        (["one"], None, None, []),
    ],
)
def test_slices_outside_of_the_range_are_named(additions, span, asked, told, monkeypatch: pytest.MonkeyPatch):
    said, seen = [], []
    ends = span and (DAY.add(hours=span[0]), DAY.add(hours=span[1]))
    monkeypatch.setattr("sluice.clients.lake.open.open_lake", lambda spec: None)
    monkeypatch.setattr("sluice.state.additions.read_additions", lambda lake: additions)
    monkeypatch.setattr("sluice.state.manifests.landed_span", lambda lake, length: ends)
    monkeypatch.setattr("sluice.state.survey.survey", lambda spec, slices: seen.append(slices) or FURTHER)
    monkeypatch.setattr(run, "progress", said.append)
    spec = pipeline()
    spec.model_post_init({"config": Path("x y.yaml")})
    run._tell_outside(spec, SLICES, None)
    assert said == told
    edges = [(hours.start, hours.end) for hours in seen]
    assert edges == ([] if asked is None else [tuple(DAY.add(hours=hour) for hour in asked)])


@pytest.mark.parametrize("mode", ["reload", "reland"])
def test_it_goes_with_a_fill_alone(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "load_pipeline", lambda name, config: pipeline())
    with pytest.raises(WrongUse, match="--backfill is for --mode fill"):
        run.run("ads", "2026-11-20T10:00Z", "2026-11-20T11:00Z", mode=mode, backfill=True)
