"""`sluice run` over many batches: a landing goes on beside the load of the batch before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.cli import run
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseOutOfReach, Refused, SluiceError
from sluice.flow import steps
from sluice.flow.land import submit
from sluice.plan.estimate import Expected
from sluice.plan.plan import Amount, Work
from sluice.slices import SliceRange
from tests.support.landing_world import hours, pipeline

FIRST, SECOND, THIRD = (hours(1, first=number) for number in range(3))
ONE = (1, 1)
_SECONDS = 10


def batches(
    monkeypatch: pytest.MonkeyPatch,
    land: Callable[[SliceRange], int],
    load: Callable[[SliceRange], None],
    work: tuple[SliceRange, ...] = (FIRST, SECOND, THIRD),
    amount: Amount = ONE,
    left: Work | SluiceError | None = None,
    mode: str = "fill",
) -> int:
    spec: Pipeline = pipeline(tables={"click": "db.click"})
    monkeypatch.setattr(run, "_land", lambda spec, path, batch, *_: land(batch))
    monkeypatch.setattr(steps, "load_table", lambda spec, table, batch, *_: load(batch))
    monkeypatch.setattr(steps, "expected_time", lambda spec, work: Expected({}, ()))
    monkeypatch.setattr(steps, "work_in", lambda *_: _given(left))
    amounts = (amount,) * len(work)
    return run._batches(spec, Path("x"), Work(work, amounts, amounts, ONE), mode, "t")


def _given(left: Work | SluiceError | None) -> Work | None:
    if isinstance(left, SluiceError):
        raise left
    return left


def test_each_landing_is_beside_the_load_of_the_batch_before(monkeypatch: pytest.MonkeyPatch):
    """Landing and load wait for each other: one after the other, neither would go on."""
    landing = {SECOND: threading.Event(), THIRD: threading.Event()}
    loading = {FIRST: threading.Event(), SECOND: threading.Event()}
    before, after = {SECOND: FIRST, THIRD: SECOND}, {FIRST: SECOND, SECOND: THIRD}
    did: list[str] = []

    def land(batch: SliceRange) -> int:
        if batch in landing:
            landing[batch].set()
            assert loading[before[batch]].wait(_SECONDS)
        did.append(f"landed {batch}")
        return 0

    def load(batch: SliceRange) -> None:
        assert f"landed {batch}" in did
        if batch in loading:
            loading[batch].set()
            assert landing[after[batch]].wait(_SECONDS)
        did.append(f"loaded {batch}")

    assert batches(monkeypatch, land, load) == 0
    assert [line for line in did if line.startswith("loaded")] == [
        f"loaded {b}" for b in (FIRST, SECOND, THIRD)
    ]
    assert len(did) == 6


def test_a_failed_landing_holds_up_no_batch_and_is_the_exit_code(monkeypatch: pytest.MonkeyPatch):
    loaded: list[SliceRange] = []
    left = Work((FIRST,), (ONE,), (ONE,), ONE)
    assert batches(monkeypatch, lambda batch: 4 if batch == FIRST else 0, loaded.append, left=left) == 4
    assert loaded == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("failing", "left", "mode", "told"),
    [
        (None, 0, "fill", "batch 2 of 2: done; 4 of 4 units and 40,800 of 40,800 rows done"),
        (FIRST, 1, "fill", "batch 1 of 2: not all of it landed; 1 of 4 units and 10,200 of 40,800 rows done"),
        (FIRST, 2, "fill", "batch 1 of 2: not all of it landed; 0 of 4 units and 0 of 40,800 rows done"),
        (SECOND, 2, "fill", "batch 2 of 2: not all of it landed; 2 of 4 units and 20,400 of 40,800 rows"),
        (SECOND, 0, "reland", "batch 2 of 2: not all of it landed; 2 of 4 units and 20,400 of 40,800 rows"),
        (FIRST, 1, "fill", "batch 2 of 2: done; 3 of 4 units and 30,600 of 40,800 rows done"),
    ],
)  # fmt: skip
def test_only_what_is_done_is_told(monkeypatch, capsys, failing, left, mode, told):
    """Batches of two units; `left` of them are not complete after a landing that failed."""
    amounts = ((left, left * 10_200),)
    rest = Work((FIRST,), amounts, amounts, ONE)
    code = 1 if failing else 0
    land = lambda batch: 1 if batch == failing else 0  # noqa: E731
    two = (FIRST, SECOND)
    assert batches(monkeypatch, land, lambda _: None, two, (2, 20_400), rest, mode) == code
    assert told in capsys.readouterr().err


def test_what_nobody_can_look_up_is_not_told_as_done(monkeypatch, capsys):
    """And the batches that follow are landed and loaded all the same."""
    loaded: list[SliceRange] = []
    away = ClickHouseOutOfReach("127.0.0.1:1", "it is away")
    assert batches(monkeypatch, lambda b: 1 if b == FIRST else 0, loaded.append, left=away) == 1
    assert loaded == [FIRST, SECOND, THIRD]
    assert "batch 1 of 3: not all of it landed; 0 of 3 units and 0 of 3 rows" in capsys.readouterr().err


def test_nothing_to_do(monkeypatch: pytest.MonkeyPatch):
    assert batches(monkeypatch, lambda _: 1, lambda _: None, ()) == 0


@pytest.mark.parametrize("error", [Refused("no"), KeyboardInterrupt()])
def test_what_ends_the_run_stops_the_landing_under_way(
    monkeypatch: pytest.MonkeyPatch, error: SluiceError | KeyboardInterrupt
):
    under_way, stopped = threading.Event(), threading.Event()
    monkeypatch.setattr(submit.Running, "stop", lambda self: stopped.set())
    landed: list[SliceRange] = []

    def land(batch: SliceRange) -> int:
        landed.append(batch)
        if batch == SECOND:
            under_way.set()
            assert stopped.wait(_SECONDS)
        return 0

    def load(batch: SliceRange) -> None:
        assert under_way.wait(_SECONDS)
        raise error

    with pytest.raises(type(error)):
        batches(monkeypatch, land, load)
    assert stopped.is_set() and landed == [FIRST, SECOND]
