"""`sluice plan`: what a backfill would do, per hour; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.cli import status_lines
from sluice.cli.options import Config, From, Json, Mode, Name, To, check_mode, load_pipeline, slice_range
from sluice.cli.output import print_facts, print_json, print_line, print_table
from sluice.errors import SluiceError
from sluice.manifest import Loss
from sluice.plan.plan import action, as_json, rows_of, to_land, work_of
from sluice.plan.waiting import missing_lines
from sluice.state.status import UnitStatus

_COLUMNS = ("slice", "cluster", "state", "does", "offsets", "rows", "reads")
_LOST = ("Kafka no longer has", "lacks topics")


def plan(
    pipeline: Name, start: From, to: To, mode: Mode = "fill", config: Config = None, json: Json = False
) -> None:
    """What a backfill of [A, B) would do, per hour: state, offsets, reads, what Kafka no longer has. Of more
    than 500 hours a line for each day, of more than 500 days for each month.

    Example: sluice plan adx --from 2026-11-20T00:00Z --to now
    """
    from sluice.flow.resolve.preview import preview
    from sluice.flow.steps import expected_time

    check_mode(mode)
    spec = load_pipeline(pipeline, config)
    slices = slice_range(spec, start, to)
    seen = preview(spec, slices)
    found = seen.found
    if json:
        print_json([as_json(status, mode, spec.on_expired) for status in found])
        return _raise_first(seen.unreachable)
    work, landing = work_of(found, mode), to_land(found, mode, spec.on_expired)
    lines = status_lines.grouped(found)
    title = status_lines.title(f"{spec.name} {slices}, mode {mode}", found, lines)
    print_table(title, _COLUMNS + _LOST, [_line(units, mode, spec.on_expired) for units in lines])
    print_facts(
        {
            "slices": len(slices),
            "complete": sum(s.state.done for s in found),
            "offsets to land": sum(status.offsets for status in landing),
            "reads": sum(status.reads for status in landing),
            "rows to load": work.rows,
            "batches": len(work.batches),
            "time": str(expected_time(spec, work)),
        }
    )
    for line in missing_lines(spec, found):
        print_line(line)
    _raise_first(seen.unreachable)


def _line(units: Sequence[UnitStatus], mode: str, on_expired: str) -> tuple[object, ...]:
    lacking = dict.fromkeys(
        name for s in units for name in (*s.lacking, *(f"counts {table}" for table in s.uncounted))
    )
    return (
        status_lines.name_of(units),
        units[0].unit.cluster,
        status_lines.counted(str(status.state) for status in units),
        status_lines.counted(action(status, mode, on_expired) for status in units),
        sum(status.offsets for status in units),
        sum(map(rows_of, units)),
        sum(status.reads for status in units),
        _lost(units),
        ", ".join(lacking),
    )


def _lost(units: Sequence[UnitStatus]) -> str:
    """The lost offsets of each partition, in one range where they touch."""
    spans: list[list[int]] = []
    places: list[str] = []
    for loss in sorted((x for status in units for x in status.losses), key=_place_and_start):
        place = f"{loss.topic}/{loss.partition}"
        if places and places[-1] == place and loss.start <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], loss.until)
        else:
            places.append(place)
            spans.append([loss.start, loss.until])
    return "; ".join(
        f"{place} [{start}, {until})" for place, (start, until) in zip(places, spans, strict=True)
    )


def _place_and_start(loss: Loss) -> tuple[str, int, int]:
    return loss.topic, loss.partition, loss.start


def _raise_first(unreachable: Mapping[str, SluiceError]) -> None:
    """The plan of a cluster that does not answer is not known: the other clusters' is printed before."""
    for error in unreachable.values():
        raise error
