"""`sluice forget`: the lake forgets files of hours that are old enough."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import pendulum
import typer

from sluice.cli.options import Config, Json, PipelineArgument, load_pipeline, read_instant
from sluice.cli.output import print_facts, print_json, print_line, progress
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.slices import FIRST, SliceRange

if TYPE_CHECKING:
    from sluice.clients.lake.base import Lake
    from sluice.flow.forget import Forgetting

_MOST_LINES = 20
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be forgotten, and what waits; change nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
SinceOption = Annotated[str | None, typer.Option("--from", metavar="A", help="Only hours from A on.")]
UntilOption = Annotated[str, typer.Option("--to", metavar="B", help="Only hours before B.")]


def forget(
    pipeline: PipelineArgument,
    start: SinceOption = None,
    to: UntilOption = "now",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Deletes files of hours that are older than `keep` in the pipeline file says; their manifests stay.

    Each hour is verified before. One that a table lacks, or of which a count does not hold, keeps its files.
    Tables keep their rows. A run of the hourly DAG does the same by itself. What a run has begun and was
    killed in is ended, whatever `keep` says now.
    Example: sluice forget adx --dry-run
    """
    from sluice.clients.lake.open import open_lake
    from sluice.flow.forget import due_windows, forget_due

    spec, now = load_pipeline(pipeline, config), pendulum.now("UTC")
    lake = open_lake(spec)
    windows = due_windows(spec, lake, now, _only(spec, start, to))
    if not spec.keep.forgets and not windows:
        raise WrongUse(f"pipeline {spec.name} keeps all files: set `keep`, such as `keep: {{lake: 400d}}`")
    if dry_run:
        _tell(_forecast(spec, lake, windows, now), json, "would be forgotten")
        return
    if windows and not yes:
        _ask(windows)
    _tell(forget_due(spec, lake, windows, now, progress), json, "forgotten")


def _only(spec: Pipeline, start: str | None, to: str) -> SliceRange | None:
    if start is None and to == "now":
        return None
    now = pendulum.now("UTC")
    first = FIRST if start is None else read_instant(start, now, spec.slice)
    return SliceRange.widen(first, read_instant(to, now, spec.slice), spec.slice)


def _forecast(
    spec: Pipeline, lake: Lake, windows: Sequence[SliceRange], now: pendulum.DateTime
) -> Forgetting:
    """Verifies what is due, and changes nothing."""
    from sluice.flow.forget import ForgetAction, Forgetting, decided

    forgetting = Forgetting()
    for window in windows:
        progress(f"verifying {window}")
        decisions, _ = decided(spec, lake, window, now, lambda _: None)
        going = [d for d in decisions if d.action in (ForgetAction.FORGET, ForgetAction.FINISH)]
        forgetting.take(lake, going)
        forgetting.waiting |= {d.unit: d.why for d in decisions if d.action is ForgetAction.WAIT}
    return forgetting


def _ask(windows: Sequence[SliceRange]) -> None:
    if not sys.stdin.isatty():
        raise WrongUse("it deletes files for good: see `--dry-run`, and add --yes")
    span = f"between {windows[0].start} and {windows[-1].end}"
    typer.confirm(f"Delete the lake's files of hours {span}, as `keep` says, for good?", abort=True)


def _tell(forgetting: Forgetting, json: bool, word: str) -> None:
    units = sorted(forgetting.units)
    facts: dict[str, object] = {"units": len(units), "files": forgetting.files, "bytes": forgetting.bytes}
    if json:
        waiting = [{"unit": str(unit), "why": why} for unit, why in sorted(forgetting.waiting.items())]
        print_json({word.replace(" ", "_"): [str(unit) for unit in units], **facts, "waiting": waiting})
        return
    for unit, why in sorted(forgetting.waiting.items())[:_MOST_LINES]:
        print_line(f"{unit} keeps its files: {why}")
    if len(forgetting.waiting) > _MOST_LINES:
        print_line(f"and {len(forgetting.waiting) - _MOST_LINES:,} more: --json lists all")
    span = f" (from {units[0]} to {units[-1]})" if units else ""
    print_facts(
        {f"units {word}": f"{len(units):,}{span}", "files": forgetting.files, "bytes": forgetting.bytes}
    )
    print_facts({"units that wait": len(forgetting.waiting)})
