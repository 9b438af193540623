"""What would stop a run that is started now, or hold it up: for `sluice plan`, dry runs and the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Tables, Target
from sluice.errors import TargetRefused
from sluice.flow.load.evolve.evolve import check_may_add
from sluice.flow.load.target_checks import inspect_target
from sluice.plan.estimate import duration_text
from sluice.safe_text import visible
from sluice.slices import SliceRange, utc
from sluice.state.lease import decode
from sluice.state.notes import COMMAND, Timing, of_day
from sluice.watch.observe import Disk, ServerFacts, server_problems

RUNNING = "running"
_LONGEST = timedelta(days=1)
"""A command that has noted no end for so long was killed."""


class Stops(str):
    """An obstacle at which the run would stop at once: nobody may start it on the page."""


class Asks(str):
    """An obstacle that a person has to know before the start: the page asks once more."""


@dataclass(frozen=True)
class AtWork:
    """A run or command that works on `[start, end)`, of some `tables` or of all. `what` is a word for it,
    `user` who started it, or empty; `run` is the id of a run of Airflow."""

    what: str
    mode: str
    start: datetime
    end: datetime
    user: str
    began: datetime | None
    tables: tuple[str, ...] = ()
    run: str = ""

    def touches(self, slices: SliceRange) -> bool:
        return self.start < slices.end and slices.start < self.end

    def line(self, now: datetime) -> str:
        by = f" of {visible(self.user)}" if self.user else ""
        hours = f"{self.start:%Y-%m-%dT%H:%MZ} – {self.end:%Y-%m-%dT%H:%MZ}"
        only = f", only {', '.join(map(visible, self.tables))}" if self.tables else ""
        what = f"a {visible(self.mode)} of {hours}{only} ({self.what}{by})"
        waits = "this run waits wherever both load the same table"
        if self.began is None:
            return f"{what} is queued: {waits}"
        return f"{what} has run for {duration_text((now - self.began).total_seconds())}: {waits}"


def at_work_lines(works: Iterable[AtWork], slices: SliceRange, now: datetime) -> list[str]:
    """Returns a line for each that works on hours of the range."""
    return [Asks(one.line(now)) for one in works if one.touches(slices)]


def read_obstacles(
    pipeline: Pipeline, slices: SliceRange, tables: Tables | None, now: datetime, lake: Lake | None = None
) -> list[str]:
    """Returns a line for each: tables that are missing or refused, disks that are full, and loads and
    commands that are at work. Changes nothing. Raises what the clients raise."""
    lake, chosen = lake or open_lake(pipeline), pipeline.chosen(tables)
    with connect_shards(pipeline) if pipeline.targets else nullcontext(()) as servers:
        found = [*refused(servers, pipeline, chosen), *_full(servers, pipeline, lake)]
    return [*found, *at_work_lines(commands_at_work(lake, now), slices, now), *_held(lake, chosen)]


def refused(servers: Servers, pipeline: Pipeline, chosen: Iterable[Target]) -> Iterator[str]:
    """Yields why the run would stop before it lands anything, table by table; a rollup stops no other
    table."""
    said: set[str] = set()
    for server in servers:
        if server.client is None:
            yield f"{server.error}: what it lacks is loaded by a later run"
            continue
        for target in chosen:
            try:
                target_table, _ = inspect_target(server.client, pipeline, target)
                check_may_add(server.client, pipeline, target, target_table)
            except TargetRefused as error:
                if target.table not in said:
                    said.add(target.table)
                    if target.rollup:
                        yield Asks(f"the run would stop at its load: {error.public}")
                    else:
                        yield Stops(f"the run would stop before it lands anything: {error.public}")


def _full(servers: Servers, pipeline: Pipeline, lake: Lake) -> Iterator[str]:
    for server in servers:
        if server.client is not None:
            disks = tuple(Disk(*row) for row in server.client.rows(render("watch/disks")))
            yield from full_disks(pipeline, server.client.address, disks)
    folder = Path(lake.url.removeprefix("file://")) if lake.url.startswith("file://") else None
    if folder is not None and folder.exists():
        usage = shutil.disk_usage(folder)
        yield from full_disks(pipeline, lake.url, (Disk("of the folder", usage.free, usage.total),))


def full_disks(pipeline: Pipeline, place: str, disks: tuple[Disk, ...]) -> list[str]:
    """Returns a line for each disk of which less is free than `alarms.disk_free`."""
    problems = server_problems(pipeline, ServerFacts(place, disks=disks))
    return [f"{problem.place}: {problem.message}" for problem in problems]


def commands_at_work(lake: Lake, now: datetime) -> list[AtWork]:
    """Returns each `sluice run` that has noted its begin, and not its end."""
    days = sorted({(utc(now) - timedelta(days=back)).date() for back in (0, 1)})
    return commands_of([timing for day in days for timing in of_day(lake, day)], now)


def commands_of(timings: Iterable[Timing], now: datetime) -> list[AtWork]:
    last = {timing.run: timing for timing in timings if timing.step == COMMAND}
    works = []
    for note in last.values():
        start, end, began = (utc(datetime.fromisoformat(x)) for x in (note.start, note.until, note.started))
        if note.state == RUNNING and now - began < _LONGEST:
            tables = (note.table,) if note.table else ()
            works.append(AtWork("sluice run", note.mode, start, end, note.user, began, tables))
    return works


def _held(lake: Lake, chosen: Iterable[Target]) -> Iterator[str]:
    """Yields the tables whose lease somebody holds: a load that lives, or died a moment ago."""
    for target in chosen:
        stored = lake.read(layout.lease(target.table))
        state = None if stored is None else decode(stored.data, f"{lake.url}/{layout.lease(target.table)}")
        if state is not None and not state.released:
            term = duration_text(state.term_seconds)
            yield (
                f"table {target.table} is being loaded: this run's load waits for that one, or for {term} "
                "where its process has died"
            )
