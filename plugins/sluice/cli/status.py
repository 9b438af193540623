"""`sluice status`: a table of hours."""

from __future__ import annotations

from typing import Any

import pendulum

from sluice.cli.options import Config, Json, Name, OptionalFrom, OptionalTo, known_range, load_pipeline
from sluice.cli.output import print_facts, print_json, print_table
from sluice.pipeline import Pipeline
from sluice.status import UnitStatus

_COLUMNS = ("slice", "cluster", "state", "records", "parsed", "unparsed", "late", "loaded", "misfits")
_SHOWN = 48


def status(
    pipeline: Name,
    start: OptionalFrom = None,
    to: OptionalTo = "now",
    config: Config = None,
    json: Json = False,
) -> None:
    """A table of hours: landed, loaded, rows, rejected, lag. Without a range: the newest hours known.

    Example: sluice status adx --from 2026-11-20T00:00Z --to now
    """
    from sluice.survey import survey

    spec = load_pipeline(pipeline, config)
    slices = known_range(spec, start, to, newest=_SHOWN)
    found = survey(spec, slices)
    if json:
        print_json({"pipeline": spec.name, "lag_seconds": lag(found), "units": [as_json(s) for s in found]})
        return
    show(spec, found, f"{spec.name} {slices}")


def show(spec: Pipeline, found: list[UnitStatus], title: str) -> None:
    """Prints the hours, then rows per table and the lag."""
    print_table(title, _COLUMNS, [_row(s) for s in found])
    types = sorted({t for s in found if s.manifest for t in s.manifest.rows_by_type()})
    by_type = {s.unit: s.manifest.rows_by_type() for s in found if s.manifest}
    rows = [(str(unit), *(counts.get(t, 0) for t in types)) for unit, counts in by_type.items()]
    if types and len(types) <= 8:
        print_table("rows landed by type", ("slice", *types), rows)
    for target in spec.targets:
        held = [s.tables[target.table] for s in found if target.table in s.tables]
        rows_held, misfits = sum(r.rows for r in held), sum(r.misfits for r in held)
        print_facts({target.table: f"{rows_held:,} rows, {misfits:,} misfits"})
    print_facts({"lag": "nothing complete here" if lag(found) is None else f"{lag(found):,} s"})


def lag(found: list[UnitStatus]) -> int | None:
    """Seconds since the end of the last complete slice, or None when none is complete."""
    done = [s.unit.slice.end for s in found if s.state.done]
    return int((pendulum.now("UTC") - max(done)).total_seconds()) if done else None


def _row(s: UnitStatus) -> tuple[object, ...]:
    counts: tuple[object, ...] = ("", "", "", "")
    if s.manifest is not None:
        counts = (s.manifest.read, s.manifest.parsed, sum(s.manifest.unparsed.values()), s.manifest.late)
    loaded = sum(r.rows for r in s.tables.values())
    misfits = sum(r.misfits for r in s.tables.values())
    return (s.unit.slice.id, s.unit.cluster, str(s.state), *counts, loaded, misfits)


def as_json(s: UnitStatus) -> dict[str, Any]:
    return {
        "slice": s.unit.slice.id,
        "cluster": s.unit.cluster,
        "state": str(s.state),
        "records": s.manifest.read if s.manifest else None,
        "parsed": s.manifest.parsed if s.manifest else None,
        "unparsed": dict(s.manifest.unparsed) if s.manifest else {},
        "late": s.manifest.late if s.manifest else 0,
        "rows_by_type": s.manifest.rows_by_type() if s.manifest else {},
        "rows_by_hour_and_type": _by_hour(s),
        "tables": {t: {"rows": r.rows, "misfits": r.misfits} for t, r in s.tables.items()},
        "manifest": s.manifest.id if s.manifest else None,
        "lost": [f"{x.topic}/{x.partition} [{x.start}, {x.until})" for x in s.losses],
    }


def _by_hour(s: UnitStatus) -> dict[str, dict[str, int]]:
    """Rows by the event's own hour and type, which are the lake's folders."""
    counts: dict[str, dict[str, int]] = {}
    for file in s.manifest.files if s.manifest else ():
        hour = counts.setdefault(file.hour, {})
        for name, rows in file.types().items():
            hour[name] = hour.get(name, 0) + rows
    return dict(sorted(counts.items()))
