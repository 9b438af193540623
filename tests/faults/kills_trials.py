"""One trial: a flow, a kill, one retry as Airflow makes it, and a look at everything that is there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path

from local.services import ClickHouseServer, clickhouse_server
from sluice.config.pipeline import Pipeline
from sluice.slices import SliceRange
from tests.faults import kills_events
from tests.faults.kills_nursery import Flow, Nursery
from tests.faults.kills_points import Order, give, obeyed
from tests.faults.kills_state import Place, observed

SLICES = SliceRange(kills_events.START, kills_events.START.add(hours=kills_events.HOURS))
# The dead holder is watched for a whole term: a short one makes many trials affordable.
TERM = timedelta(milliseconds=400)
MODES = ("fill", "reload", "remake", "reland")


@dataclass
class Trials:
    """A ClickHouse server that may be killed, and a place of its own for each `fill`."""

    folder: Path
    server: ClickHouseServer
    nursery: Nursery
    bootstrap: str = "nowhere:1"
    topic: str = kills_events.TOPIC
    sent: list[kills_events.Sent] = field(default_factory=kills_events.make)
    _serial: Iterator[int] = field(default_factory=count)
    _filled: Place | None = None

    @property
    def orders(self) -> Path:
        return self.folder / "orders"

    def place(self, mode: str) -> Place:
        """An empty one, or for the other modes one in which everything is there already: what is forgotten is
        filled for each trial."""
        if mode == "fill":
            return self._empty()
        if mode == "forget":
            place = self._empty()
            self.finish(place, "fill")
            return place
        if self._filled is None:
            self._filled = self._empty()
            self.finish(self._filled, "fill")
            self.check(self._filled)
        return self._filled

    def _empty(self) -> Place:
        number = next(self._serial)
        place = Place(self.folder / f"lake{number}" / "p", f"kills_{number}", self.server.port)
        place.create()
        return place

    def done_with(self, place: Place) -> None:
        if place is not self._filled:
            place.drop()

    def flow(self, place: Place, mode: str, token: str = "t", **more: object) -> Flow:
        logs = kills_events.logs(self.sent) if self.bootstrap.startswith("nowhere") else None
        return Flow(self._pipeline(place), SLICES, self.server.port, self.orders, logs, mode, token, **more)

    def _pipeline(self, place: Place) -> Pipeline:
        kafka = {"cluster": kills_events.CLUSTER, "bootstrap": self.bootstrap, "topics": [self.topic]}
        tables = {
            "click": {"table": f"{place.database}.{kills_events.VIEWED}", "evolve": "add", "evolve_rows": 1},
            "*": f"{place.database}.{kills_events.PLAIN}",
        }
        return Pipeline.model_validate(
            {
                "name": "p",
                "kafka": [kafka],
                "event": {"type": {"field": "type"}, "time": {"field": "at"}},
                "lake": f"file://{place.lake.parent}",
                "rejected": {"fail_above": 1},
                "tables": tables,
                "clickhouse": {"lease": TERM},
                "keep": {"lake": "30d"},
            }
        )

    def trace(self, mode: str, **more: object) -> list[str]:
        """The points of an undisturbed run, in order."""
        place, trace = self.place(mode), self.orders / "trace"
        trace.touch()
        try:
            self.finish(place, mode, token=f"trace {mode}", **more)
            lines = trace.read_text().splitlines()
        finally:
            trace.unlink()
        self.check(place, mode)
        self.done_with(place)
        return lines

    def finish(self, place: Place, mode: str, **more: object) -> None:
        code = self.nursery.run(self.flow(place, mode, **more))
        assert code == 0, self.nursery.said

    def check(self, place: Place, mode: str = "") -> None:
        found, wanted = observed(place), kills_events.expected(self.sent)
        if mode == "forget":
            wanted |= {"lake": [], "rejected_records": [], "marked hours": []}
        if found != wanted and place is self._filled:
            self._filled = None  # what is wrong there must not be found again by the trials to come
        for what, value in wanted.items():
            assert found[what] == value, f"{what}: {found[what]} is not {value}"

    def duration(self, mode: str) -> float:
        """Seconds that an undisturbed run takes now."""
        place, began = self.place(mode), time.monotonic()
        self.finish(place, mode, token=f"token {next(self._serial)}")
        self.done_with(place)
        return time.monotonic() - began

    def obeys(self, mode: str, order: Order, revive: Callable[[], None] = lambda: None) -> None:
        """A run that carries the order out, `revive` of what was killed, one retry, and the look."""
        place, token = self.place(mode), f"token {next(self._serial)}"
        give(self.orders, order)
        code = self.nursery.run(self.flow(place, mode, token))
        assert obeyed(self.orders), f"{order} was not obeyed: {code}, {self.nursery.said}"
        assert order.victim != "self" or code == -9, self.nursery.said
        self._again(place, mode, token, revive)

    def strikes(
        self, mode: str, seconds: float, kill: Callable[[int], None], revive: Callable[[], None]
    ) -> None:
        """A run in which `kill` gets the running child's process id after `seconds`; then as `obeys`."""
        place, token = self.place(mode), f"token {next(self._serial)}"
        child = self.nursery.start(self.flow(place, mode, token))
        time.sleep(seconds)
        kill(child)
        self.nursery.wait()
        self._again(place, mode, token, revive)

    def _again(self, place: Place, mode: str, token: str, revive: Callable[[], None]) -> None:
        revive()
        code = self.nursery.run(self.flow(place, mode, token))
        assert code == 0, f"the retry ended with {code}: {self.nursery.said}"
        self.check(place, mode)
        self.done_with(place)

    def revive_server(self) -> None:
        self.server.kill()  # it may be alive: a random moment may come after the run's end
        self.server.start()


def start(folder: Path, **more: object) -> Trials:
    folder.joinpath("orders").mkdir()
    return Trials(folder, clickhouse_server(folder / "clickhouse"), Nursery(folder), **more)


def stop(trials: Trials) -> None:
    trials.nursery.close()
    trials.server.kill()


def occurrences(trace: Sequence[str], most: int) -> list[tuple[str, int]]:
    """Of each point its first occurrence, and up to `most` of them evenly: (point, nth). Of many the last
    tenth is left out: a run that waits less sends fewer statements."""
    found = []
    for name, times in Counter(trace).items():
        kept, last = min(most, times), times - times // 10
        spread = {1 + round(i * (last - 1) / max(kept - 1, 1)) for i in range(kept)}
        found += [(name, nth) for nth in sorted(spread)]
    return found
