"""A retry of rejected records: what is wrong with one slice holds up no other, and is told."""

from __future__ import annotations

import pytest

from sluice.cli import rejected
from sluice.errors import Busy, Conservation, LakeUnavailable, NotLoaded
from sluice.flow.rejected.rejections import RejectionFilter
from sluice.flow.rejected.retry import RetryPlan
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.verified import pipeline
from tests.unit.plan.test_plan_actions import status

UNIT = status(UnitState.COMPLETE)
PLAN = RetryPlan(bring_in=(UNIT,), reload={"e.clicks": (UNIT,), "e.other": (UNIT,)}, unfinished=(UNIT,))
WRONG = Conservation("wrong event hour: …")


def did(
    monkeypatch: pytest.MonkeyPatch, fails: str, error: Exception
) -> tuple[list[str], list[Conservation]]:
    done: list[str] = []

    def run_units(spec, found, mode, tables=None):
        done.append(mode if tables is None else f"{mode} {min(tables)}")
        if mode == fails:
            raise error
        return []

    monkeypatch.setattr(rejected, "run_units", run_units)
    monkeypatch.setattr(rejected, "_bring_in", lambda *_: done.append("bring in") or 0)
    try:
        _, wrong = rejected._do(pipeline(), MemoryLake(), PLAN, RejectionFilter())
        return done, [error for error in wrong if isinstance(error, Conservation)]
    except LakeUnavailable:
        return done, []


ALL = ["amend", "bring in", "retry", "retry e.clicks", "retry e.other"]


@pytest.mark.parametrize(("fails", "wrong"), [("", 0), ("amend", 1), ("retry", 3)])
def test_all_is_done_and_the_error_is_kept(fails: str, wrong: int, monkeypatch: pytest.MonkeyPatch):
    assert did(monkeypatch, fails, WRONG) == (ALL, [WRONG] * wrong)


def test_a_server_that_does_not_answer_ends_it(monkeypatch: pytest.MonkeyPatch):
    assert did(monkeypatch, "retry", LakeUnavailable("s3://x", "timeout"))[0] == ALL[:3]


def test_what_was_not_complete_before_is_no_failure_and_a_fill_is_named():
    behind = [status(UnitState.STALE, hour).unit for hour in (1, 3, 4)]
    units = [frozenset({(unit.slice.id, unit.cluster)}) for unit in behind]
    own = NotLoaded("…", units[0] | {(UNIT.unit.slice.id, UNIT.unit.cluster)})
    held = Busy("another attempt")
    errors = [NotLoaded("…", units[0] | units[1]), own, WRONG, held]
    said, wrong = rejected._judged(pipeline(), errors, behind)
    assert wrong == [own, WRONG, held]
    span = f"--from {behind[0].slice.start:%Y-%m-%dT%H:%MZ} --to {behind[1].slice.end:%Y-%m-%dT%H:%MZ}"
    assert said == (
        "2 slices were not complete before, and a fill still has to follow the pipeline file: "
        f"`sluice run {pipeline().name} {span} --mode fill`"
    )
    assert rejected._judged(pipeline(), [own], []) == ("", [own])
