"""`sluice erase`: takes a person's records out of lake and tables."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import pendulum
import typer
from rich.console import RenderableType

from sluice.cli.options import Config, Json, PipelineArgument, Verbose, load_pipeline, read_instant
from sluice.cli.output import Progress, print_json, progress, show, table_of, text_of
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.slices import SliceRange, ceil

if TYPE_CHECKING:
    from sluice.flow.erase.erase import Eraser, ErasurePlan
    from sluice.flow.erase.search import ErasureRequest
    from sluice.flow.erase.what_is_left import Wait
    from sluice.safe_text import Say


_MOST_LEFT = 5

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="PATH=VALUE",
        help="Records with this value, such as user.id=7 or, of the record's key, _key=u7; repeatable: any. "
        "`ps` and the shell's history show it: --where-file does not.",
    ),
]
WhereFileOption = Annotated[
    str | None,
    typer.Option(
        "--where-file",
        metavar="FILE|-",
        help="The same, a PATH=VALUE on each line of a file or of standard input (-).",
    ),
]
TypeOption = Annotated[str | None, typer.Option("--type", help="Only events of this type.")]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="A", help="Slices from A on; else from the first one on.")
]
ToOption = Annotated[
    str | None, typer.Option("--to", metavar="B", help="Slices before B; else up to the current one.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", help="Kept in the lake, such as a ticket's number; not who it is.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
NowOption = Annotated[
    bool,
    typer.Option(
        "--now",
        help="Have ClickHouse write parts without the deleted rows, and wait until old ones are gone.",
    ),
]


PendingOption = Annotated[
    bool,
    typer.Option(
        "--pending",
        help="Apply the erasure list to what landed without some of its entries, as `verify` asks. It names "
        "nobody: it takes no --where.",
    ),
]


def erase(
    pipeline: PipelineArgument,
    reason: ReasonOption = "",
    where: WhereOption = None,
    where_file: WhereFileOption = None,
    kind: TypeOption = None,
    start: FromOption = None,
    to: ToOption = None,
    yes: YesOption = False,
    now: NowOption = False,
    pending: PendingOption = False,
    verbose: Verbose = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Takes records out of lake and tables, and keeps them out of what lands later; writes a receipt.

    Searches first, says what it would do and asks. Then the erasure list in the lake gets its entry, which
    every landing obeys, and the files that hold the records are rewritten without them and loaded. All other
    rows stay as they are, whatever the pipeline file says now. Whatever
    stops it: the same words go on. Exits with 1 where something is left, which the receipt names.
    Example: sluice erase adx --where-file person.txt --reason "ticket 4711"
    """
    from sluice.clients.lake.open import open_lake
    from sluice.flow.erase.erase import Eraser
    from sluice.flow.erase.finish import finish, waits

    if pending:
        _check_alone(
            {
                "--where": where,
                "--where-file": where_file,
                "--reason": reason,
                "--type": kind,
                "--from": start,
                "--to": to,
                "--now": now,
            }
        )
    spec = load_pipeline(pipeline, config)
    if pending:
        return _apply_list(spec, json, Progress(verbose))
    request = _request(spec, where or [], read_where_file(where_file), kind or "", start, to, reason)
    eraser = Eraser(spec, open_lake(spec), request, Progress(verbose))
    plan, searched = eraser.plan()
    _show_plan(spec, request, plan, waits(eraser) if now else (), json, verbose)
    _confirm(yes)
    while True:  # an erasure that was stopped goes on, and then what came after its entry is erased
        number, erasure_list = eraser.ask()
        progress(f"entry {number} of the erasure list: what lands from now on leaves the records out")
        wrong = eraser.erase(number, erasure_list, searched)
        receipt = finish(eraser, number, erasure_list, now, wrong)
        if not eraser.goes_on(erasure_list.entries[number]):
            break
    _show_receipt(eraser, number, receipt, json, verbose)


def _check_alone(words: Mapping[str, object]) -> None:
    """Raises WrongUse for what `--pending` would not heed."""
    given = [name for name, value in words.items() if value]
    if given:
        raise WrongUse(
            f"--pending applies the whole erasure list, and nobody is added to it: leave {', '.join(given)} "
            "out, or erase without --pending"
        )


def _apply_list(spec: Pipeline, json: bool, say: Say) -> None:
    from sluice.clients.lake.open import open_lake
    from sluice.flow.erase.erase import apply_list

    applied = apply_list(spec, open_lake(spec), say)
    if json:
        print_json(asdict(applied))
    else:
        show(text_of(f"{applied.records:,} rows and rejected records erased, in {applied.units:,} units"))
    for line in (*applied.wrong, *applied.unsearched):
        progress(line)
    if applied.wrong or applied.unsearched:
        raise typer.Exit(1)


def _request(
    spec: Pipeline,
    where: Sequence[str],
    file: bytes | None,
    kind: str,
    start: str | None,
    to: str | None,
    reason: str,
) -> ErasureRequest:
    from sluice.flow.erase.search import (
        ErasureRequest,
        checked_reason,
        hidden_lines,
        read_wheres,
    )
    from sluice.mask.mask_rules import mask_rules

    wheres, now, rules = read_wheres(where, file), pendulum.now("UTC"), mask_rules(spec)
    end = ceil(now, spec.slice) if to is None else read_instant(to, now, spec.slice)
    first = pendulum.datetime(1970, 1, 1) if start is None else read_instant(start, now, spec.slice)
    slices = SliceRange.widen(first, end, spec.slice)
    for line in hidden_lines(wheres, rules):
        progress(line)
    typed: dict[str, Any] = {"start": start is not None, "end": to is not None}
    why = checked_reason(reason, wheres)
    return ErasureRequest(wheres, slices, why, getpass.getuser(), kind, **typed, rules=rules)


def _show_plan(
    spec: Pipeline,
    request: ErasureRequest,
    plan: ErasurePlan,
    waits: Sequence[Wait],
    json: bool,
    verbose: bool,
) -> None:
    """With --json on stderr: stdout has the receipt alone."""
    rows = sum(plan.rows.values())
    unsearched = plan.unsearched if verbose else plan.unsearched[:_MOST_LEFT]
    lines = [
        f"{rows:,} rows and {plan.rejected:,} rejected records match, in {plan.units:,} of {plan.of_units:,} "
        f"units of {spec.name}; their files are rewritten without these, and all other rows stay as they are",
        *(f"{name}: {count:,} rows" for name, count in plan.tables.items() if count and verbose),
        *(f"not searched: {line}" for line in unsearched),
        *(f"not searchable: {line}" for line in plan.unsearchable),
        f"what lands of slices before {request.slices.end} leaves such records out from then on",
    ]
    if plan.behind:
        lines.append(
            f"{plan.behind:,} other units landed again and are not loaded, so tables may have rows of their "
            "files before: they are loaded"
        )
    for wait in waits:
        lines.append(
            f"--now waits for {wait.server} afterwards: about {wait.kept:,} s, for which it keeps replaced "
            f"parts and dropped tables, and {wait.longest:,} s at most"
        )
    if waits:
        lines.append("without --now nothing waits: the same words with --now can do so at another time")
    for line in lines if json else ():
        progress(line)
    if not json:
        types = table_of("rows by type", ("type", "rows"), sorted(plan.rows.items()))
        show(*map(text_of, lines), *([types] if plan.rows and verbose else []))


def _confirm(yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise WrongUse("nobody is there to ask: --yes erases without a question")
    if not typer.confirm("Erase them? This cannot be undone."):
        progress("nothing was changed")
        raise typer.Exit(1)


def _show_receipt(eraser: Eraser, number: int, receipt: dict[str, Any], json: bool, verbose: bool) -> None:
    """Exits with 1 where something is left."""
    if json:
        print_json(receipt)
    else:
        show(*_receipt_lines(eraser, number, receipt, verbose))
    if receipt["left"]:
        raise typer.Exit(1)


def _receipt_lines(
    eraser: Eraser, number: int, receipt: dict[str, Any], verbose: bool
) -> list[RenderableType]:
    """What is left comes last: it is why the command fails."""
    from sluice.state.erasures import receipt_key

    done = receipt["erased"]
    lines = [
        text_of(
            f"erased: {done['rows']:,} rows and {done['rejected']:,} rejected records, of "
            f"{done['units']:,} units",
            style="bold",
        )
    ]
    for name, rows in receipt["tables"].items() if verbose else ():
        lines.append(text_of(f"{name}: {rows['before']:,} rows of these units before, {rows['after']:,} now"))
    lines += [text_of(line) for line in receipt["notes"]]
    lines.append(text_of(f"receipt: {eraser.lake.url}/{receipt_key(number)}"))
    return [*lines, *(text_of(f"left: {line}") for line in receipt["left"])]


# Reads `--where-file` of `sluice erase`: what is on no command line is in no `ps` and no shell's history.
_MOST_BYTES = 1 << 20


def read_where_file(name: str | None) -> bytes | None:
    """Returns the bytes of the file, or of standard input for `-`. Raises WrongUse.

    An error does not repeat the name: who forgets that it is a file's types a value there.
    """
    if name is None:
        return None
    try:
        if name == "-":
            content = _bounded(cast(IO[bytes], sys.stdin.buffer))
        else:
            with open(name, "rb") as file:
                content = _bounded(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise WrongUse(
            f"--where-file cannot be read: {why}: it names a file with a line PATH=VALUE for each value, or "
            "- for standard input"
        ) from None
    if len(content) > _MOST_BYTES:
        raise WrongUse(f"--where-file: more than {_MOST_BYTES:,} bytes: erase them in parts")
    return content


def _bounded(file: IO[bytes]) -> bytes:
    return file.read(_MOST_BYTES + 1)
