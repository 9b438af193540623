"""`sluice status`: a table of hours, once or live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import pendulum
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from sluice.backlog import Backlog
from sluice.cli import hours
from sluice.cli.options import Config, Json, Name, OptionalFrom, OptionalTo, known_range, load_pipeline
from sluice.cli.output import console, print_json, table_of
from sluice.errors import WrongUse
from sluice.load.ledger import LedgerRow
from sluice.manifest import Manifest
from sluice.pipeline import Pipeline
from sluice.status import UnitStatus, complete_slices
from sluice.waiting import missing_lines
from sluice.waiting import waiting as waiting_of

if TYPE_CHECKING:
    from sluice.page.models import Lag, PartitionLag

_LAG_COLUMNS = ("partition", "landed until", "log end", "records waiting", "seconds", "records/s")
_SHOWN = 48
_MOST_TYPES = 8
_OTHER_LINES, _FEWEST = 12, 6  # of a terminal: all but the hours, and the hours that are shown anyway
Watch = Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", min=1, help="Seconds between two looks with --watch.")]
WithLag = Annotated[bool, typer.Option("--lag", help="Ask Kafka, too: records that have not landed.")]


def status(
    pipeline: Name,
    start: OptionalFrom = None,
    to: OptionalTo = "now",
    watch: Watch = False,
    every: Every = 5,
    with_lag: WithLag = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """A table of hours: landed, loaded, rows, rejected, lag. Without a range: the newest hours known. Of more
    than 500 hours a table of days.

    Example: sluice status adx --from 2026-11-20T00:00Z --to now
    """
    spec = load_pipeline(pipeline, config)
    if json and watch:
        raise WrongUse("--json answers once: leave --watch out, and ask again")
    if watch:
        return _watch(spec, start, to, every, with_lag)
    found, title = _look(spec, start, to)
    waiting = _waiting(spec, found) if with_lag else None
    older = _older(spec)
    if json:
        print_json({**_answer(spec, found, waiting), "older": _older_json(older)})
    else:
        console().print(Group(*shown(spec, found, title, waiting), *_older_lines(spec, older)))


def _watch(spec: Pipeline, start: str | None, to: str, every: float, with_lag: bool) -> None:
    """Redraws the newest hours that fit the terminal; elsewhere the looks follow each other."""
    screen = console()
    with Live(console=screen, auto_refresh=False) if screen.is_terminal else nullcontext() as live:
        while True:
            found, title = _look(spec, start, to, max(screen.height - _OTHER_LINES, _FEWEST))
            waiting = _waiting(spec, found) if with_lag else None
            seen = f"seen at {pendulum.now('UTC'):%H:%M:%SZ}, again in {every:g} s; Ctrl-C ends it"
            older = _older_lines(spec, _older(spec))
            view = Group(*shown(spec, found, title, waiting), *older, Text(seen, style="dim"))
            screen.print(view) if live is None else live.update(view, refresh=True)
            time.sleep(every)


def _look(spec: Pipeline, start: str | None, to: str, newest: int = _SHOWN) -> tuple[list[UnitStatus], str]:
    from sluice.survey import survey

    slices = known_range(spec, start, to, newest=newest)
    return survey(spec, slices), f"{spec.name} {slices}"


def _waiting(spec: Pipeline, found: list[UnitStatus]) -> Lag:
    from sluice.page.lag import ask_topics, lag_of

    topics, errors = ask_topics(spec)
    return lag_of(found, topics, errors, pendulum.now("UTC"))


def _older(spec: Pipeline) -> Backlog:
    """What is not complete of the hours before those that each hourly run looks at."""
    from sluice.lake.open import open_lake
    from sluice.look_back import seen_backlog

    return seen_backlog(
        spec, open_lake(spec), pendulum.now("UTC").subtract(seconds=spec.heal.total_seconds())
    )


def _older_lines(spec: Pipeline, older: Backlog) -> Iterator[Text]:
    if older:
        yield Text(f"older: {older}; the hourly runs go back to them", style="bold red")


def _older_json(older: Backlog) -> dict[str, list[str]]:
    """The older units that are not complete, by state."""
    found: dict[str, list[str]] = {}
    for unit, state in older.states.items():
        found.setdefault(str(state), []).append(str(unit))
    return found


def show(spec: Pipeline, found: list[UnitStatus], title: str) -> None:
    """Prints the hours, then rows per table and the lag."""
    console().print(Group(*shown(spec, found, title)))


def shown(
    spec: Pipeline, found: list[UnitStatus], title: str, waiting: Lag | None = None
) -> Iterator[RenderableType]:
    """The hours, rows by type where they are few, rows by table, and the lag."""
    lines = hours.grouped(found)
    days = f", by day (--json has the {len(found):,} hours)" if len(lines) < len(found) else ""
    yield table_of(title + days, hours.COLUMNS, map(hours.line, lines))
    types = sorted({t for s in found if s.manifest for t in s.manifest.rows_by_type()})
    if types and len(types) <= _MOST_TYPES:
        landed = hours.grouped([s for s in found if s.manifest])
        rows = [hours.line_by_type(units, types) for units in landed]
        yield table_of("rows landed by type", ("slice", *types), rows)
    for target in spec.targets:
        held = [s.tables[target.table] for s in found if target.table in s.tables]
        rows_held, misfits = sum(r.rows for r in held), sum(r.misfits for r in held)
        yield Text(f"{target.table}: {rows_held:,} rows, {misfits:,} misfits")
    for line in missing_lines(spec, found):
        yield Text(line)
    if waiting is not None:
        yield from _partitions(waiting)
    seconds = lag(found)
    yield Text("lag: nothing complete here" if seconds is None else f"lag: {seconds:,} s")


def _partitions(waiting: Lag) -> Iterator[RenderableType]:
    rows = [_partition(p) for p in waiting.partitions]
    yield table_of("not landed yet", _LAG_COLUMNS, rows)
    yield from (Text(error, style="bold red") for error in waiting.errors)
    yield Text(f"{sum(p.records for p in waiting.partitions):,} records wait in Kafka")


def _partition(p: PartitionLag) -> tuple[object, ...]:
    place = f"{p.cluster}/{p.topic}/{p.partition}"
    return place, _known(p.landed_until), p.log_end, p.records, _known(p.seconds), p.rate


def _known(value: int | None) -> object:
    return "-" if value is None else value


def _answer(spec: Pipeline, found: list[UnitStatus], waiting: Lag | None) -> dict[str, Any]:
    answer = {"pipeline": spec.name, "lag_seconds": lag(found), "units": [as_json(s) for s in found]}
    if len(spec.clusters) > 1:
        left = waiting_of(spec, found)
        answer["missing"] = {part.cluster: [unit.slice.id for unit in part.units] for part in left}
    return answer if waiting is None else {**answer, "waiting": waiting.model_dump()}


def lag(found: list[UnitStatus]) -> int | None:
    """Seconds since the end of the last complete slice, or None when none is complete."""
    done = complete_slices(found)
    return int((pendulum.now("UTC") - done[-1].end).total_seconds()) if done else None


def _arrays(manifest: Manifest) -> dict[str, Any]:
    """Of records that are arrays: the rows they held, those that did not land, and records without any."""
    return {"rows": manifest.rows, "rows_unparsed": dict(manifest.rows_unparsed), "empty": manifest.empty}


def as_json(s: UnitStatus) -> dict[str, Any]:
    return {
        "slice": s.unit.slice.id,
        "cluster": s.unit.cluster,
        "state": str(s.state),
        "records": s.manifest.read if s.manifest else None,
        "parsed": s.manifest.parsed if s.manifest else None,
        "unparsed": dict(s.manifest.unparsed) if s.manifest else {},
        **(_arrays(s.manifest) if s.manifest and s.manifest.rows is not None else {}),
        "late": s.manifest.late if s.manifest else 0,
        "rows_by_type": s.manifest.rows_by_type() if s.manifest else {},
        "rows_by_hour_and_type": _by_hour(s),
        "tables": {t: {"rows": r.rows, "misfits": r.misfits, **_shards(r)} for t, r in s.tables.items()},
        "manifest": s.manifest.id if s.manifest else None,
        "lost": [f"{x.topic}/{x.partition} [{x.start}, {x.until})" for x in s.losses],
    }


def _shards(row: LedgerRow) -> dict[str, Any]:
    """The rows that each shard has committed, None for one that lacks the unit; nothing without shards."""
    return {"shards": {name: r and r.rows for name, r in row.shares}} if row.shares else {}


def _by_hour(s: UnitStatus) -> dict[str, dict[str, int]]:
    """Rows by the event's own hour and type, which are the lake's folders."""
    counts: dict[str, dict[str, int]] = {}
    for file in s.manifest.files if s.manifest else ():
        hour = counts.setdefault(file.hour, {})
        for name, rows in file.types().items():
            hour[name] = hour.get(name, 0) + rows
    return dict(sorted(counts.items()))
