"""`sluice conformance`: does a ClickHouse server keep what a load relies on?"""

from __future__ import annotations

import json as json_text
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output import print_line, print_verdict
from sluice.errors import WrongUse

if TYPE_CHECKING:
    from sluice.conformance.report import Tried

ConnectionArgument = Annotated[
    str, typer.Argument(metavar="CONNECTION", help="An Airflow connection: `clickhouse_default`.")
]
Minutes = Annotated[
    int, typer.Option("--minutes", min=1, help="Cases that have not begun after so many are not tried.")
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the report there, as JSON.")
]


def conformance(connection: ConnectionArgument, minutes: Minutes = 15, json: JsonFile = None) -> None:
    """Tries on a ClickHouse server what a load relies on, and says of each case whether it holds.

    A loader falls asleep and is overtaken, goes away in the middle of each statement, and comes late; reads
    follow writes. All of it is in a database of its own, sluice_conformance, which is removed at the end. It
    takes about a minute. The exit code is 1 if anything doesn't hold, or couldn't be tried.
    Example: sluice conformance clickhouse_default --json report.json
    """
    from sluice.clients.connections import find
    from sluice.conformance.report import try_all

    if json is not None:
        _check_writable(json)
    report = try_all(find(connection), 60 * minutes, _say)
    if json is not None:
        json.write_text(json_text.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    held = sum(tried.verdict == "holds" for tried in report.cases)
    print_verdict(
        f"ClickHouse {report.server}, {report.engine}: {held} of {len(report.cases)} cases hold", report.holds
    )
    if not report.holds:
        raise typer.Exit(1)


def _check_writable(path: Path) -> None:
    """Leaves no file where there was none: what follows may be refused."""
    there = os.path.lexists(path)
    try:
        path.open("a").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise WrongUse(f"--json {path}: {error.strerror}") from error


def _say(tried: Tried) -> None:
    print_line(f"{tried.verdict:<17} {tried.case}: {tried.why}")
    sys.stdout.flush()
