"""`sluice plan`: what a backfill would do, per hour; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.cli.options import Config, From, Json, Mode, Name, To, check_mode, load_pipeline, slice_range
from sluice.cli.output import print_facts, print_json, print_table
from sluice.errors import SluiceError
from sluice.plan import action, as_json, rows_of, to_land, work_of
from sluice.waiting import missing_lines

_COLUMNS = ("slice", "cluster", "state", "does", "offsets", "rows", "reads")
_LOST = ("Kafka no longer has", "lacks topics")


def plan(
    pipeline: Name, start: From, to: To, mode: Mode = "fill", config: Config = None, json: Json = False
) -> None:
    """What a backfill of [A, B) would do, per hour: state, offsets, reads, what Kafka no longer has.

    Example: sluice plan adx --from 2026-11-20T00:00Z --to now
    """
    from sluice.steps import expected_time
    from sluice.survey import preview

    check_mode(mode)
    spec = load_pipeline(pipeline, config)
    slices = slice_range(spec, start, to)
    seen = preview(spec, slices)
    found = seen.found
    if json:
        print_json([as_json(status, mode, spec.on_expired) for status in found])
        return _raise_first(seen.unreachable)
    work, landing = work_of(found, mode), to_land(found, mode, spec.on_expired)
    rows = [
        (
            status.unit.slice.id,
            status.unit.cluster,
            status.state,
            action(status, mode, spec.on_expired),
            status.offsets,
            rows_of(status),
            status.reads,
            "; ".join(f"{x.topic}/{x.partition} [{x.start}, {x.until})" for x in status.losses),
            ", ".join((*status.lacking, *(f"counts {table}" for table in status.uncounted))),
        )
        for status in found
    ]
    print_table(f"{spec.name} {slices}, mode {mode}", _COLUMNS + _LOST, rows)
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
        print(line)
    _raise_first(seen.unreachable)


def _raise_first(unreachable: Mapping[str, SluiceError]) -> None:
    """The plan of a cluster that does not answer is not known: the other clusters' is printed before."""
    for error in unreachable.values():
        raise error
