"""A retry of rejected records: what verify finds wrong of one slice holds up no other, and is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli import rejected_retry
from sluice.errors import Conservation, LakeUnavailable
from sluice.flow.rejected.retry_plan import RetryPlan
from sluice.state.unit_state import UnitState
from tests.support.verified import pipeline
from tests.unit.plan.test_plan_actions import status

UNIT = status(UnitState.COMPLETE)
PLAN = RetryPlan(remake=(UNIT,), reload={"e.clicks": (UNIT,), "e.other": (UNIT,)}, unfinished=(UNIT,))
WRONG = Conservation("wrong event hour: …")


def did(
    monkeypatch: pytest.MonkeyPatch, fails: str, error: Exception
) -> tuple[list[str], list[Conservation]]:
    done: list[str] = []

    def run_units(spec, path, found, mode, tables=None):
        done.append(mode if tables is None else f"{mode} {min(tables)}")
        if mode == fails:
            raise error

    monkeypatch.setattr(rejected_retry, "run_units", run_units)
    try:
        return done, rejected_retry._do(pipeline(), Path("x"), PLAN)
    except LakeUnavailable:
        return done, []


ALL = ["fill", "remake", "reload e.clicks", "reload e.other"]


@pytest.mark.parametrize(("fails", "wrong"), [("", 0), ("fill", 1), ("remake", 1), ("reload", 2)])
def test_all_is_done_and_the_error_is_kept(fails: str, wrong: int, monkeypatch: pytest.MonkeyPatch):
    assert did(monkeypatch, fails, WRONG) == (ALL, [WRONG] * wrong)


def test_a_server_that_does_not_answer_ends_it(monkeypatch: pytest.MonkeyPatch):
    assert did(monkeypatch, "remake", LakeUnavailable("s3://x", "timeout"))[0] == ALL[:2]
