"""`sluice init` from sample to report: everything that can refuse comes before anything is written."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.connections import find
from sluice.config.files import pipelines_folder
from sluice.config.pipeline import CATCH_ALL, Cluster
from sluice.errors import Unavailable, WrongUse
from sluice.init.propose import (
    LEAST_SHARE,
    Existing,
    PipelineProposal,
    cluster_name,
    event_model,
    form_texts,
    guess_event,
    propose,
    read_events,
)
from sluice.init.questions import SCHEMA, InitChoices, InitRequest, Question, ask, checked_name
from sluice.init.sample import Sample, check_form, sample_file, sample_topic
from sluice.init.sniff import form_of
from sluice.manifest import TOMBSTONE
from sluice.named_file import read_named_text
from sluice.plan.estimate import duration_text
from sluice.slices import HOUR, ceil, floor, from_ms


@dataclass(frozen=True)
class Report:
    """`lines` for a person; `files` that were written; the `commands` that follow. `wait` says from when on
    `run` has something to do, where it has nothing now."""

    lines: tuple[str, ...]
    files: tuple[Path, ...]
    commands: tuple[str, ...]
    wait: str = ""


def init(request: InitRequest, answer: Callable[[Question], str], now: datetime) -> Report:
    """Raises WrongUse, WrongPipeline, and what Kafka raises; with `apply` also what ClickHouse raises, before
    anything is written, and ServerError for a statement that is refused, after it."""
    check_form(request.form, request.file)
    if request.name is not None:
        refuse_existing(_files(request, checked_name(request.name)), request.force)
    sample = _sample(request)
    request = replace(request, form=form_of(request.form, sample.records))
    guessed = guess_event(sample, request.form, request.folder)
    answers = ask(request, guessed, answer)
    files = _files(request, answers.name)
    refuse_existing(files, request.force)
    topic = request.topic or answers.name
    sample = sample.of_topic(topic)
    parsed = read_events(sample, event_model(request, answers))
    with ExitStack() as stack:
        client, note = _connect(request, stack)

        def existing(tables: Sequence[str]) -> Existing:
            return existing_columns(client, tables) if client else {}

        proposal = propose(request, answers, topic, sample, parsed, existing)
        write_all(dict(zip(files, (proposal.pipeline, proposal.statements), strict=True)), request.force)
        if request.apply and client:
            run_statements(client, statements_in(proposal.statements))
    lines = (*_summary(request, sample, answers, proposal), *([note] if note else []))
    following = tuple(commands(_outcome(request, answers), proposal.stamps, now, sample.cut))
    return Report(lines, files, following, waiting_line(proposal.stamps, now))


def apply_statements(request: InitRequest, name: str) -> Report:
    """Runs the statements beside the pipeline file that `init` has made. Raises WrongUse where there are
    none, and what ClickHouse raises."""
    _, path = _files(request, checked_name(name))
    try:
        text = read_named_text(path)
    except OSError as error:
        raise WrongUse(
            f"{path}: {error.strerror}: name `--topic` or `--file`, and `init` makes it"
        ) from error
    with connected(request.clickhouse) as client:
        count = run_statements(client, statements_in(text))
    return Report((f"{count:,} statements of {path} were run",), (), ())


def _files(request: InitRequest, name: str) -> tuple[Path, Path]:
    return request.folder / f"{name}.yaml", request.folder / f"{name}.sql"


def _sample(request: InitRequest) -> Sample:
    if request.file is not None:
        return sample_file(request.file, request.sample)
    topic = request.topic or ""
    address = {"bootstrap": request.bootstrap} if request.bootstrap else {"connection": request.connection}
    cluster = Cluster.model_validate({"cluster": cluster_name(request), "topics": [topic], **address})
    return sample_topic(cluster, topic, request.sample)


def _connect(request: InitRequest, stack: ExitStack) -> tuple[Client | None, str]:
    """Returns a client, or without `apply` a note that none answers: the files are written all the same."""
    try:
        return stack.enter_context(connected(request.clickhouse)), ""
    except (Unavailable, ServerError, WrongUse) as error:
        if request.apply:
            raise
        return None, f"ClickHouse was not asked which tables are there: {error}"


def _summary(
    request: InitRequest, sample: Sample, answers: InitChoices, proposal: PipelineProposal
) -> list[str]:
    types = proposal.sample.types()
    lines = [f"sampled {sample.source}: {sum(types.values()):,} events of {len(types):,} types"]
    lines += [
        f"rejected: {count:,} {reason}"
        if reason != TOMBSTONE
        else f"tombstones: {count:,}, which give no row: `change: {{compacted: FIELD}}` makes them deletes"
        for reason, count in sorted(proposal.sample.refused.items())
    ]
    if said := form_texts(request):
        lines.append(f"messages: {', '.join(said)}")
    time = answers.time
    lines.append(
        f"type: {_type_text(answers.type)}; time: "
        + (f"field {time.field} ({time.format})" if time else "the record's own")
    )
    if time and time.zone:
        lines.append(f"times of {time.field} have no offset: set `zone` where they are not {time.zone}")
    for table in proposal.tables:
        name = "other types" if table.type == CATCH_ALL else table.type
        what = "there already" if table.existing else f"{len(table.columns.columns):,} columns"
        if table.type == CATCH_ALL:
            what = f"types of less than {LEAST_SHARE:.0%}, with their payload"
        lines.append(f"{name} -> {table.table}: {table.events:,} events; {what}")
        lines += [f"{table.table}: {table.lacking}"] if table.lacking else []
        lines += [f"{table.table}: {note}" for note in table.columns.notes()]
    return lines


def _type_text(kind: str | None) -> str:
    if kind == SCHEMA:
        return "the schema's name"
    return f"field {kind}" if kind else "the topic"


def _outcome(request: InitRequest, answers: InitChoices) -> Made:
    path, _ = _files(request, answers.name)
    here = request.folder.resolve() == pipelines_folder().resolve()
    config, folder = (None, None) if here else (path, str(request.folder))
    return Made(answers.name, config, folder, request.file, request.apply)


# Asks ClickHouse which tables are there, and runs the statements.
@contextmanager
def connected(connection: str) -> Iterator[Client]:
    """Raises WrongUse for an unknown connection, ClickHouseUnavailable, and ServerError."""
    with closing(open_client(find(connection))) as client:
        yield client


def existing_columns(client: Client, tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Returns the columns of those tables (database.table) that are there."""
    columns_by_table = {}
    for name in tables:
        table = read_table(client, *name.split(".", 1))
        if table is not None:
            columns_by_table[name] = tuple(column.name for column in table.columns if column.taken)
    return columns_by_table


def run_statements(client: Client, statements: Iterable[str]) -> int:
    """Returns how many were run. Raises ServerError at the first that is refused."""
    count = 0
    for statement in statements:
        client.run(statement)
        count += 1
    return count


# Divides a file of statements where the server ends them. Pure.
_PARTS = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<end>;)|'(?:\\.|''|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|.""",
    re.DOTALL,
)


def statements_in(text: str) -> list[str]:
    """Returns the statements without comments: a semicolon in a quoted text, a name or a comment ends
    none."""
    statements = [""]
    for part in _PARTS.finditer(text):
        if part["end"]:
            statements.append("")
        elif not part["comment"]:
            statements[-1] += part[0]
    return [statement.strip() for statement in statements if statement.strip()]


# Writes the pipeline file and the statements: both or none, whatever stops it.
def refuse_existing(paths: Iterable[Path], force: bool) -> None:
    """Raises WrongUse for a file that is there."""
    existing = [str(path) for path in paths if os.path.lexists(path)]
    if existing and not force:
        raise WrongUse(
            f"{' and '.join(existing)}: there already; `--force` overwrites, another name does not"
        )


def write_all(texts: Mapping[Path, str], force: bool) -> None:
    """Writes every file or none: an error or an interruption restores what was there. A file appears whole.

    Raises WrongUse for a file that is there, and for a folder that cannot be written.
    """
    refuse_existing(texts, force)
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}.draft") for path in texts}
    kept = {path: path.with_name(f".{path.name}.{os.getpid()}.kept") for path in texts}
    try:
        for path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(error) from error
    try:
        for path, text in texts.items():
            _write(drafts[path], text)
        for path in texts:
            _install(path, drafts[path], kept[path] if force else None)
    except OSError as error:
        _take_back(drafts, kept)
        raise _unwritten(error) from error
    except BaseException:
        _take_back(drafts, kept)
        raise
    for left in (*drafts.values(), *kept.values()):
        left.unlink(missing_ok=True)


def _unwritten(error: OSError) -> WrongUse:
    return WrongUse(f"{error.filename}: {error.strerror}: nothing was written")


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _install(path: Path, draft: Path, kept: Path | None) -> None:
    """Installs by a link, which fails where somebody else has made the file meanwhile."""
    if kept is not None and os.path.lexists(path):
        os.replace(path, kept)
    os.link(draft, path)


def _take_back(drafts: Mapping[Path, Path], kept: Mapping[Path, Path]) -> None:
    for path, draft in drafts.items():
        if draft.exists() and path.exists() and path.samefile(draft):
            path.unlink()
        if os.path.lexists(kept[path]):
            os.replace(kept[path], path)
        draft.unlink(missing_ok=True)


# The three commands that follow, exactly as they are typed, and when they have something to do. Pure.
_AFTER = timedelta(milliseconds=1)
_ROOM = 0.1  # of the sampled time, behind a sample that ends before what it is of
COMMANDS = 3


@dataclass(frozen=True)
class Made:
    """What stands after `init`. `config` is the pipeline file where `sluice` does not find it by its name,
    `file` what was sampled and is still to be published, `applied`: the tables are there."""

    name: str
    config: Path | None
    folder: str | None
    file: str | None
    applied: bool


def commands(outcome: Made, stamps: Sequence[int], now: datetime, cut: bool = False) -> list[str]:
    """Returns the commands that follow. `stamps` are the times of records in ms, as far as they are known;
    `cut`: later ones may follow."""
    pipeline = [outcome.name] + (["--config", str(outcome.config)] if outcome.config else [])
    start, end = span(stamps, now, cut)
    arguments = [] if outcome.applied else [_init(outcome)]
    if outcome.file is not None:
        source = outcome.file if outcome.file == "-" else str(outcome.file)
        arguments.append(["publish", *pipeline[:1], source, *pipeline[1:]])
    elif outcome.applied:
        arguments.append(["plan", *pipeline, "--from", start, "--to", end])
    arguments.append(["run", *pipeline, "--from", start, "--to", end])
    arguments.append(["verify", *pipeline, "--contents"])
    return [shlex.join(["sluice", *words]) for words in arguments[:COMMANDS]]


def _init(outcome: Made) -> list[str]:
    folder = ["--into", outcome.folder] if outcome.folder else []
    return ["init", outcome.name, *folder, "--apply"]


def span(stamps: Sequence[int], now: datetime, cut: bool = False) -> tuple[str, str]:
    """Returns the whole hours from the first time to the last, with room behind it where the sample is `cut`;
    `now` where they reach to it."""
    if not stamps:
        return _hour(floor(now, HOUR)), "now"
    first, last = from_ms(min(stamps)), from_ms(max(stamps))
    room = (last - first) * (_ROOM if cut else 0)
    end = ceil(last + timedelta(milliseconds=1) + room, HOUR)
    return _hour(floor(first, HOUR)), "now" if end > floor(now, HOUR) else _hour(end)


def runnable_from(stamps: Sequence[int], now: datetime) -> datetime | None:
    """Returns the end of the first hour with events, where it is not over; without `stamps` they get the time
    at which they are published. None where `run` has something to do now."""
    first = from_ms(min(stamps)) if stamps else now
    return None if first < floor(now, HOUR) else ceil(max(first, now) + _AFTER, HOUR)


def waiting_line(stamps: Sequence[int], now: datetime) -> str:
    """Says from when on `run` has something to do; empty where it has now."""
    over = runnable_from(stamps, now)
    if over is None:
        return ""
    why = "the hour of these events is not over"
    if not stamps:
        why = "each record gets the time at which it is published, and an hour is landed when it is over"
    left = duration_text((over - now).total_seconds())
    return f"{why}: a run has nothing to do before {_hour(over)}, in {left}"


def _hour(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:00Z}"
