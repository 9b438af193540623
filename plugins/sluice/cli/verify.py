"""`sluice verify`: do the equations hold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pendulum
import typer

from sluice.cli.options import (
    Config,
    DayOption,
    Json,
    KnownFrom,
    OptionalTo,
    PipelineArgument,
    TableOption,
    Verbose,
    day_or,
    known_range,
    load_pipeline,
    tables_of,
)
from sluice.cli.output import Progress, print_json, print_line, print_verdict

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline
    from sluice.flow.verify.anomaly import Anomaly
    from sluice.flow.verify.audit import AuditScope
    from sluice.flow.verify.causes import Cause
    from sluice.safe_text import Say
    from sluice.slices import SliceRange
    from sluice.state.status import UnitStatus

_FIRST = 5  # notes that have a line each
_ALWAYS = ("slices", "records", "rows_compared", "broken")  # counts that say something where they are 0

Checksums = Annotated[bool, typer.Option("--checksums", help="Read every file, and compare its SHA-256.")]
ContentsOption = Annotated[
    bool,
    typer.Option(
        "--contents", help="Compare rows: the lake's with their payloads, the tables' with the lake's."
    ),
]
Clean = Annotated[bool, typer.Option("--clean", help="Remove files that no manifest lists.")]


def verify(
    pipeline: PipelineArgument,
    start: KnownFrom = None,
    to: OptionalTo = "now",
    day: DayOption = None,
    table: TableOption = None,
    checksums: Checksums = False,
    contents: ContentsOption = False,
    clean: Clean = False,
    verbose: Verbose = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Checks every count from boundaries, manifests, the ledger, the lake's files and the tables themselves.

    Exit code 1 when something is broken: a line for each cause with place and hours, then the commands that
    repair. --verbose also lists every anomaly. Also when --contents could not compare a table before you
    have mended what a line says.
    Without a range: every hour that is known, and all that the lake and the tables hold. With --table what
    other tables lack is no anomaly, and the page keeps the verdict of the last run over all of them.
    """
    from sluice.errors import Busy
    from sluice.flow.verify.audit import AuditScope
    from sluice.flow.verify.repairs import commands

    spec = load_pipeline(pipeline, config)
    start, to = day_or(spec, start, to, day)
    scope = AuditScope(True, start is None, checksums, contents, tables_of(spec, table))
    seen = _verified(spec, known_range(spec, start, to), scope, Progress(verbose), clean=clean)
    if json:
        anomalies = [anomaly.as_dict() for anomaly in seen.anomalies]
        details = {"anomalies": anomalies, "notes": seen.notes, "commands": commands(seen.anomalies)}
        details |= {"blocked": seen.blocked}
        print_json({**seen.facts, "causes": [_as_json(cause) for cause in seen.causes], **details})
    else:
        _print(seen, commands(seen.anomalies), verbose)
    if seen.anomalies or seen.blocked:
        raise typer.Exit(1)
    if seen.busy:
        raise Busy(f"{'; '.join(seen.busy)}: verify the contents again")


@dataclass(frozen=True)
class _Seen:
    """The outcome of a verify. `causes` are its anomalies, grouped by their repair. `missing` are lines about
    hours that are not complete, `busy` about rows that were being loaded, `blocked` about those that cannot
    be compared before somebody has done what the line says."""

    facts: Mapping[str, Any]
    anomalies: Sequence[Anomaly]
    causes: Sequence[Cause]
    notes: Sequence[str]
    missing: Sequence[str]
    busy: Sequence[str]
    blocked: Sequence[str] = ()


def _verified(spec: Pipeline, slices: SliceRange, scope: AuditScope, say: Say, *, clean: bool) -> _Seen:
    """Audits the range and compares its rows; keeps the verdict where all tables were read."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.contents.compare import ContentsReport, auditor
    from sluice.flow.steps import rule_lines
    from sluice.flow.verify import audit as verification
    from sluice.flow.verify.causes import causes_of
    from sluice.flow.verify.repairs import as_printed
    from sluice.flow.verify.verdict import lake_damage, note_verified, opened_all, read_verdict
    from sluice.plan.plan import missing_lines

    statuses, anomalies, notes, pending = verification.audit(spec, slices, scope, say)
    removed = verification.clean(spec, anomalies, scope, say) if clean else 0
    if removed:
        statuses, anomalies, notes, pending = verification.audit(spec, slices, scope, say)
    compared = ContentsReport()
    if scope.contents:
        compared = auditor(spec, say, anomalies, scope.tables).whole(statuses)
    damage = lake_damage(read_verdict(open_lake(spec)), compared.covered)
    anomalies = as_printed(spec, statuses, [*anomalies, *compared.anomalies], damage)
    differences = rule_lines(spec, open_lake(spec), statuses)
    notes = [*notes, *differences, *compared.notes, *(f"not compared: {line}" for line in compared.busy)]
    if scope.tables is None:
        now, left_out = pendulum.now("UTC"), compared.uncompared
        note_verified(open_lake(spec), slices, statuses, anomalies, now, compared.covered, pending, left_out)
    records = sum(s.manifest.read for s in statuses if s.manifest)
    facts = {"slices": len(slices), "records": records, "removed": removed}
    facts |= _rows(spec, statuses, scope)
    facts |= {"rows_compared": compared.rows} if scope.contents else {}
    facts |= {"broken": len(anomalies), "not_compared": len(compared.blocked)}
    causes = causes_of(opened_all(slices, statuses, anomalies, pendulum.now("UTC")))
    return _Seen(
        facts, anomalies, causes, notes, missing_lines(spec, statuses), compared.busy, compared.blocked
    )


def _rows(spec: Pipeline, statuses: Sequence[UnitStatus], scope: AuditScope) -> dict[str, int]:
    """Counts parsed rows by what became of them; empty where only some tables were verified."""
    from sluice.state.row_balance import balance_of

    if scope.tables is not None:
        return {}
    rows = balance_of(spec, statuses)
    return {
        "rows_parsed": rows.landed,
        "rows_loaded": rows.loaded,
        "rejected_rows": rows.rejected_rows,
        "rows_without_a_table": rows.without.total(),
        "rows_not_loaded": rows.not_loaded,
    }


def _print(seen: _Seen, repairs: Sequence[str], verbose: bool) -> None:
    """Prints what is wrong, what repairs it, and last the counts: how much was compared, and is broken."""
    for cause in seen.causes:
        print_line("; ".join(filter(None, [f"{cause.title}: {cause.message}", cause.advice])))
        for anomaly in cause.anomalies if verbose else ():
            print_line(f"- {anomaly.kind}: {anomaly.place}: {anomaly.message}")
    for line in seen.blocked:
        print_line(f"not compared: {line}")
    notes = [*seen.notes, *seen.missing]
    for line in notes if verbose else notes[:_FIRST]:
        print_line(line)
    if len(notes) > _FIRST and not verbose:
        print_line(f"and {len(notes) - _FIRST:,} more: --verbose shows all")
    for command in repairs:
        print_line(f"repair: {command}")
    counts = {name: count for name, count in seen.facts.items() if count or name in _ALWAYS}
    good = not seen.causes and not seen.blocked
    print_verdict(", ".join(f"{name}: {count:,}" for name, count in counts.items()), good)


def _as_json(cause: Cause) -> dict[str, Any]:
    return {
        "name": cause.name,
        "place": cause.place,
        "message": cause.message,
        "commands": cause.commands,
        "advice": cause.advice,
        "slices": cause.slices,
        "anomalies": len(cause.anomalies),
    }
