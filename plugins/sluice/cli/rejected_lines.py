"""What `sluice rejected` prints: a table of reasons, and for each its remedy, a command and samples."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.cli.fit_columns import TableColumn
from sluice.cli.output import print_json, print_line, progress, show, table_of
from sluice.config.pipeline import Pipeline
from sluice.errors import Unavailable
from sluice.safe_text import line, visible
from sluice.slices import SliceRange

if TYPE_CHECKING:
    from sluice.flow.rejected.rejections import RejectedGroup
    from sluice.page.slice_models import RejectedSample

MOST_GROUPS = 100
_COLUMNS = (
    TableColumn("where", 0),
    TableColumn("column", 3),
    TableColumn("reason", 0),
    TableColumn("records", 0),
    TableColumn("slices", 2),
    TableColumn("since", 1),
    TableColumn("last", 4),
)


@dataclass(frozen=True)
class RejectedReport:
    """What was rejected of a pipeline. `unknown` says of which slices it is; `error`: ClickHouse did not
    answer, and misfits are unknown."""

    name: str
    slices: SliceRange
    groups: Sequence[RejectedGroup]
    samples: Sequence[RejectedSample]
    unknown: str = ""
    error: Unavailable | None = None

    def samples_of(self, group: RejectedGroup) -> list[RejectedSample]:
        from sluice.page.rejects import plain

        cause = group.cause
        place = f"{cause.table}.{cause.column}" if cause.kind == "misfit" else ""
        key = (cause.kind, place, cause.reason)
        return [sample for sample in self.samples if (sample.kind, plain(sample.place), sample.reason) == key]


def show_report(report: RejectedReport, command: str, *, wide: bool, json: bool) -> None:
    """Prints it. `command` is the reading one without filters. Raises what kept misfits from being read."""
    if json:
        print_json([_as_json(group, report) for group in report.groups])
        if report.unknown:
            progress(report.unknown)
    else:
        _print(report, command, wide=wide)
    if report.error is not None:
        raise report.error


def _print(report: RejectedReport, command: str, *, wide: bool) -> None:
    shown = report.groups[:MOST_GROUPS]
    if report.unknown:
        print_line(report.unknown)
    if not report.groups:
        if report.error is not None:
            return
        landed = " of what has landed" if report.unknown else ""
        print_line(f"{report.name} {report.slices}: nothing was rejected{landed}")
        return
    show(table_of(f"{report.name} {report.slices}", _COLUMNS, map(_row, shown)), wide=wide)
    if len(report.groups) > len(shown):
        print_line(f"{len(report.groups) - len(shown):,} kinds more, with fewer records: --json has them")
    for group in shown:
        for text in _lines(group, report.samples_of(group), command):
            print_line(text)


def _row(group: RejectedGroup) -> tuple[object, ...]:
    cause = group.cause
    where = "parse" if cause.kind == "unparsed" else cause.table
    return where, cause.column, cause.reason, group.records, group.slices, group.first.id, group.last.id


def _lines(group: RejectedGroup, samples: Sequence[RejectedSample], command: str) -> Iterator[str]:
    """Yields the remedy of a group, the command that brings its records in then, and its samples."""
    from sluice.flow.rejected.remedies import fix_of, retryable
    from sluice.flow.rejected.trial import cause_text

    cause, misfit = group.cause, group.cause.kind == "misfit"
    yield f"{cause_text(cause)}: {fix_of(cause.reason, misfit)}"
    if group.forgotten:
        yield (
            f"the lake has forgotten the bytes of {group.forgotten:,} of these records: `reland` brings "
            "their slices, as long as Kafka has them"
        )
    if retryable(cause.reason, misfit) and group.forgotten < group.records:
        column = f" --table {shlex.quote(cause.table)} --column {shlex.quote(cause.column)}" if misfit else ""
        yield f"then: {command}{column} --reason {shlex.quote(cause.reason)} --retry"
    for sample in samples:
        place = f"{sample.cluster}/{sample.topic}/{sample.partition}/{sample.offset}"
        shown = f"{visible(sample.value, 200)} in {sample.payload}" if sample.value else sample.payload
        yield f"sample {visible(place)}{f': {line(shown, 400)}' if shown else ''}"


def retry_command(pipeline: Pipeline, slices: SliceRange) -> str:
    return pipeline.command("rejected", *slices.words)


def _as_json(group: RejectedGroup, report: RejectedReport) -> dict[str, Any]:
    from sluice.flow.rejected.remedies import fix_of

    cause = group.cause
    return {
        "where": "parse" if cause.kind == "unparsed" else "table",
        "table": cause.table,
        "column": cause.column,
        "reason": cause.reason,
        "records": group.records,
        "forgotten": group.forgotten,
        "slices": group.slices,
        "since": group.first.id,
        "last": group.last.id,
        "remedy": fix_of(cause.reason, cause.kind == "misfit"),
        "samples": [sample.model_dump() for sample in report.samples_of(group)],
    }
