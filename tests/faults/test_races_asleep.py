"""A loader that sleeps longer than its lease in the middle of a step, while another takes over and finishes.

All sleepers of the module sleep at once, each over a table of its own, so that the terms pass side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from signal import SIGCONT

import pytest

from local.readiness import wait_until
from sluice.clients.clickhouse.connect import connect
from sluice.crash_points import TableLoad
from sluice.errors import ClickHouseUnavailable, Fenced, LakeUnavailable
from sluice.flow.load.fencing import fences, stagings
from sluice.flow.load.load import load
from sluice.state.units import units_of
from tests.faults.published import CLICKS
from tests.faults.race_world import Scene
from tests.faults.racers import DEADLINE_SECONDS, Outcome, Racer
from tests.faults.test_races import clickhouse_at
from tests.faults.traps import Trap
from tests.integration.landed import client_of
from tests.support.landing_world import hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

HOURS = 2
AT_ONCE = 4
# The short form: where most is half done, and where the lease is written.
SHORT = [TableLoad.MOVED, TableLoad.DELETED, TableLoad.STAGED, TableLoad.LEASED]
STEPS = [*SHORT, *(step for step in TableLoad if step not in SHORT)]
# Where each step has its most dangerous moment: right before its first statement that writes, when the lease
# has just been renewed; or before it reads, or before and after it writes the lease.
KINDS = {
    TableLoad.LEASED: "lease",
    TableLoad.CLAIMED: "rows",
    TableLoad.CHECKED: "rows",
    TableLoad.COUNTED: "rows",
    TableLoad.RELEASED: "lease",
}
# What the first of several is does not matter to the others, where only the last makes the step's effect.
NUMBERS = {
    TableLoad.FENCED: (0, 1, 2),
    TableLoad.DELETED: (0, 1, 2),
    TableLoad.DROPPED: (0, 1, 2),
    TableLoad.FENCED_OFF: (0, 1),
}


def places(long_form: bool) -> Iterator[tuple[str, Trap]]:
    """(mode, trap): a reload of a target with a view has every statement; a fill has no deletions."""
    for step in STEPS if long_form else SHORT:
        kind = KINDS.get(step, "run")
        for number in NUMBERS.get(step, (0,)) if long_form else (0,):
            for after in (False, True) if long_form or step is TableLoad.LEASED else (False,):
                yield "reload", Trap(kind, step, number, after)
                if step is TableLoad.MOVED or (
                    long_form and step not in (TableLoad.REVOKED, TableLoad.DELETED)
                ):
                    yield "fill", Trap(kind, step, number, after)


@dataclass
class Sleep:
    """One sleeper: its trap, what became of it, and what its successor had loaded before it woke up."""

    mode: str
    trap: Trap
    scene: Scene
    racer: Racer | None = None
    outcome: Outcome | None = None
    wrong: str = ""

    def __str__(self) -> str:
        return f"{self.mode}, {self.trap}"

    def prepare(self) -> None:
        self.scene.make_tables(view=self.mode == "reload")
        if self.mode == "reload":
            self.run("fill")

    def sleep(self) -> None:
        self.racer = Racer(self.scene.job(0, HOURS, published=0, mode=self.mode, trap=self.trap))
        wait_until(self.racer.stopped, f"the trap ({self})", DEADLINE_SECONDS)

    def overtake(self) -> None:
        """Runs the successor. A sleeper that was stopped while it renewed its lease holds the lake's lock:
        then the successor ends as retryable, and nothing is overtaken."""
        try:
            self.run(self.mode, token="successor")
        except LakeUnavailable as error:
            if "a stopped process holds its lock" not in str(error):
                raise
        else:
            self.check()

    def wake(self) -> None:
        assert self.racer is not None
        self.racer.send_signal(SIGCONT)
        self.outcome = self.racer.outcome()
        self.check()
        self.run("fill")
        self.check()
        left = self.scene.sql("SELECT name FROM system.tables WHERE database = 'sluice'")
        prefixes = tuple(p(t.table) for t in self.scene.pipeline.targets for p in (fences, stagings))
        assert [name for (name,) in left if name.startswith(prefixes)] == []

    def run(self, mode: str, token: str = "") -> None:
        pipeline, lake = self.scene.pipeline, self.scene.lake
        with connect(pipeline) as client:
            for target in pipeline.targets:
                load(pipeline, target, units_of(pipeline, hours(HOURS)), lake, client, mode=mode, token=token)

    def check(self) -> None:
        self.scene.expect_tables(hours(HOURS), view=self.mode == "reload")

    def noted(self, act: Callable[[Sleep], None]) -> None:
        """Does it, unless something went wrong before; every sleeper is judged by itself."""
        try:
            if not self.wrong:
                act(self)
        except Exception as error:
            self.wrong = f"{act.__name__}: {type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def sleeps(clickhouse_server, tmp_path_factory, long_form: bool) -> Iterator[list[Sleep]]:
    with pytest.MonkeyPatch.context() as patch:
        environment = clickhouse_at(clickhouse_server)
        for name, value in environment.items():
            patch.setenv(name, value)
        root = f"file://{tmp_path_factory.mktemp('lake')}"
        client = client_of(clickhouse_server)
        first = Scene(root, "asleep", client, environment, HOURS, lease="1s", types=(CLICKS,))
        outcome = Racer(first.make_tables().job(0, HOURS)).outcome()
        assert outcome is not None and not outcome.error
        made = [
            Sleep(mode, trap, first.named(f"asleep_{number}"))
            for number, (mode, trap) in enumerate(places(long_form))
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for act in (Sleep.prepare, Sleep.sleep, Sleep.overtake, Sleep.wake):
                list(pool.map(lambda sleep, act=act: sleep.noted(act), made))
        yield made
        for sleep in made:
            if sleep.racer is not None:
                sleep.racer.process.kill()


# The server may have closed the sleeper's connection before it woke up.
EXPECTED = (Fenced.__name__, ClickHouseUnavailable.__name__, "")


@pytest.mark.parametrize("step", per_commit(STEPS, len(SHORT)))
def test_a_loader_that_sleeps_in_a_step_does_no_harm(sleeps: list[Sleep], step: TableLoad, fault_log):
    own = [sleep for sleep in sleeps if sleep.trap.step is step]
    for sleep in own:
        fault_log.add("race", f"asleep in {sleep}", bool(sleep.wrong), victim="sleeping loader")
    assert own
    assert {str(sleep): sleep.wrong for sleep in own if sleep.wrong} == {}
    for sleep in own:
        assert sleep.outcome is not None
        assert sleep.outcome.error in EXPECTED, sleep.outcome


# Before these the sleeper had no lease to lose; after these its work was done.
FREE = (TableLoad.LEASED, TableLoad.DROPPED, TableLoad.RELEASED)


def test_every_sleeper_that_lost_its_lease_says_so(sleeps: list[Sleep]):
    lost = [sleep for sleep in sleeps if sleep.trap.step not in FREE]
    assert [str(sleep) for sleep in lost if sleep.outcome and not sleep.outcome.error] == []
    assert {sleep.outcome.error for sleep in lost if sleep.outcome} <= set(EXPECTED)
