"""The loop over batches: in `sluice run`, a landing goes on beside the load of the batch before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sluice.cli import run as chosen_run
from sluice.clients.clickhouse.errors import ServerError
from sluice.config.pipeline import Pipeline
from sluice.errors import (
    ClickHouseUnavailable,
    Conservation,
    Fenced,
    Refused,
    ShardsRefused,
    SluiceError,
    TargetRefused,
)
from sluice.flow import steps
from sluice.flow.batch_loop import Landings, one_ahead, one_by_one, run_batches
from sluice.flow.land import submit
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import PlannedWork, UnitsAndRows
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
    amount: UnitsAndRows = ONE,
    left: PlannedWork | SluiceError | None = None,
    mode: str = "fill",
    landings: Landings | None = None,
) -> int:
    spec: Pipeline = pipeline(tables={"click": "db.click"})
    monkeypatch.setattr(steps, "load_table", lambda spec, table, batch, *_: load(batch))
    monkeypatch.setattr(steps, "estimated_time", lambda spec, work: TimeEstimate({}, ()))
    monkeypatch.setattr(steps, "work_in", lambda *_: _given(left))
    amounts = (amount,) * len(work)
    given = landings or partial(one_ahead, land, lambda: None)
    return run_batches(spec, PlannedWork(work, amounts, amounts, ONE), mode, "t", given, print)


def _given(left: PlannedWork | SluiceError | None) -> PlannedWork | None:
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
    left = PlannedWork((FIRST,), (ONE,), (ONE,), ONE)
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
    rest = PlannedWork((FIRST,), amounts, amounts, ONE)
    code = 1 if failing else 0
    land = lambda batch: 1 if batch == failing else 0  # noqa: E731
    two = (FIRST, SECOND)
    assert batches(monkeypatch, land, lambda _: None, two, (2, 20_400), rest, mode) == code
    assert told in capsys.readouterr().out


def test_what_nobody_can_look_up_is_not_told_as_done(monkeypatch, capsys):
    """And the batches that follow are landed and loaded all the same."""
    loaded: list[SliceRange] = []
    away = ClickHouseUnavailable("127.0.0.1:1", "it is away")
    assert batches(monkeypatch, lambda b: 1 if b == FIRST else 0, loaded.append, left=away) == 1
    assert loaded == [FIRST, SECOND, THIRD]
    assert "batch 1 of 3: not all of it landed; 0 of 3 units and 0 of 3 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error",
    [
        TargetRefused("db.click", "no", "mend it"),
        ShardsRefused("db.click", "shard s1: no", ""),
        ServerError("h:1", 395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO", "staging", "no"),
        Conservation("no"),
    ],
)
def test_what_a_person_has_to_mend_of_a_table_holds_up_no_other(monkeypatch, error: SluiceError):
    """Each of its batches is tried, and the run ends with its first error."""
    loaded: list[tuple[str, SliceRange]] = []

    def load(spec: Pipeline, table: str, batch: SliceRange, *_: object) -> None:
        if table == "db.click":
            raise error
        loaded.append((table, batch))

    spec = pipeline(tables={"click": "db.click", "view": "db.view"})
    monkeypatch.setattr(steps, "load_table", load)
    monkeypatch.setattr(steps, "estimated_time", lambda spec, work: TimeEstimate({}, ()))
    monkeypatch.setattr(steps, "work_in", lambda *_: None)
    work = PlannedWork((FIRST, SECOND), (ONE, ONE), (ONE, ONE), ONE)
    with pytest.raises(type(error)) as raised:
        run_batches(spec, work, "fill", "t", partial(one_by_one, lambda _: 0), print)
    assert raised.value is error
    assert loaded == [("db.view", FIRST), ("db.view", SECOND)]


def test_nothing_to_do(monkeypatch: pytest.MonkeyPatch):
    assert batches(monkeypatch, lambda _: 1, lambda _: None, ()) == 0


@pytest.mark.parametrize("error", [Fenced("no"), KeyboardInterrupt()])
def test_what_ends_the_run_stops_the_landing_under_way(
    monkeypatch: pytest.MonkeyPatch, error: SluiceError | KeyboardInterrupt
):
    under_way, stopped = threading.Event(), threading.Event()
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
        batches(monkeypatch, land, load, landings=partial(one_ahead, land, stopped.set))
    assert stopped.is_set() and landed == [FIRST, SECOND]


def test_a_landing_that_raises_ends_the_run(monkeypatch: pytest.MonkeyPatch):
    stopped, loaded = threading.Event(), list[SliceRange]()

    def land(batch: SliceRange) -> int:
        if batch == SECOND:
            raise Refused("no")
        return 0

    with pytest.raises(Refused):
        batches(monkeypatch, land, loaded.append, landings=partial(one_ahead, land, stopped.set))
    assert stopped.is_set() and loaded == [FIRST]


def test_one_by_one_each_landing_follows_the_load_of_the_batch_before(monkeypatch, capsys):
    def land(batch: SliceRange) -> int:
        print(f"landed {batch}")
        return 0

    batches(
        monkeypatch, land, lambda b: print(f"loaded {b}"), (FIRST, SECOND), landings=partial(one_by_one, land)
    )
    said = [text.split(";")[0] for text in capsys.readouterr().out.splitlines()]
    assert said == [
        f"batch 1 of 2: land {FIRST}",
        f"landed {FIRST}",
        "batch 1 of 2: load db.click",
        f"loaded {FIRST}",
        "batch 1 of 2: done",
        f"batch 2 of 2: land {SECOND}",
        f"landed {SECOND}",
        "batch 2 of 2: load db.click",
        f"loaded {SECOND}",
        "batch 2 of 2: done",
    ]


@pytest.mark.parametrize(("exit_code", "code"), [(0, 0), (1, 1), (75, 3)])
def test_the_landings_of_sluice_run(monkeypatch, exit_code, code):
    """What a retry cures ends with the code of an unavailable server; an error ends the application."""
    under_way = []

    def run_locally(job: str, say: object, running: submit.Running) -> int:
        under_way.append((job, running))
        return exit_code

    monkeypatch.setattr(submit, "run_locally", run_locally)
    monkeypatch.setattr(
        steps,
        "land_range",
        lambda spec, path, batch, mode, token, submit, accept_loss: submit(f"{path} {batch} {mode} {token}"),
    )
    codes = chosen_run.landings(pipeline(), Path("x.yaml"), "reload", "t")(
        [FIRST, SECOND], lambda number: None
    )
    assert next(codes) == code
    with pytest.raises(Refused):
        codes.throw(Refused("a load failed"))
    assert under_way[0][0] == f"x.yaml {FIRST} reload t"
    assert under_way[0][1]._stopped
