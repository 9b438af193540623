"""`sluice init` from sample to report: everything that can refuse comes before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.config.files import pipelines_folder
from sluice.config.kafka import Cluster
from sluice.config.pipeline import CATCH_ALL
from sluice.errors import Unavailable, WrongUse
from sluice.init.draft import cluster_name
from sluice.init.files import refuse_existing, write_all
from sluice.init.messages import check_form
from sluice.init.next_steps import Made, commands, waiting_line
from sluice.init.propose import PipelineProposal, event_model, guess_event, propose, read_events
from sluice.init.questions import InitChoices, Question, ask, checked_name
from sluice.init.request import InitRequest
from sluice.init.sample import Sample, sample_file, sample_topic
from sluice.init.server import connected, existing_columns, run_statements
from sluice.init.statements import statements_in
from sluice.init.tables import LEAST_SHARE, Existing
from sluice.named_file import read_named_text


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
    guessed = guess_event(sample, request.form, request.folder)
    answers = ask(request, guessed, answer)
    files = _files(request, answers.name)
    refuse_existing(files, request.force)
    topic = request.topic or answers.name
    sample = sample.of_topic(topic)
    parsed = read_events(sample, event_model(request, answers, guessed.arrays))
    with ExitStack() as stack:
        client, note = _connect(request, stack)

        def existing(tables: Sequence[str]) -> Existing:
            return existing_columns(client, tables) if client else {}

        proposal = propose(request, answers, topic, sample, parsed, guessed.arrays, existing)
        write_all(dict(zip(files, (proposal.pipeline, proposal.statements), strict=True)), request.force)
        if request.apply and client:
            run_statements(client, statements_in(proposal.statements))
    lines = (*_summary(sample, answers, proposal), *([note] if note else []))
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


def _summary(sample: Sample, answers: InitChoices, proposal: PipelineProposal) -> list[str]:
    types = proposal.sample.types()
    lines = [f"sampled {sample.source}: {sum(types.values()):,} events of {len(types):,} types"]
    lines += [f"unparsed: {count:,} {reason}" for reason, count in sorted(proposal.sample.refused.items())]
    time = answers.time
    lines.append(
        f"type: {f'field {answers.type}' if answers.type else 'the topic'}; time: "
        + (f"field {time.field} ({time.format})" if time else "the record's own")
    )
    for table in proposal.tables:
        name = "other types" if table.type == CATCH_ALL else table.type
        what = "there already" if table.existing else f"{len(table.columns.columns):,} columns"
        if table.type == CATCH_ALL:
            what = f"types of less than {LEAST_SHARE:.0%}, with their payload"
        lines.append(f"{name} -> {table.table}: {table.events:,} events; {what}")
        lines += [f"{table.table}: {table.lacking}"] if table.lacking else []
        lines += [f"{table.table}: {note}" for note in table.columns.notes()]
    return lines


def _outcome(request: InitRequest, answers: InitChoices) -> Made:
    path, _ = _files(request, answers.name)
    here = request.folder.resolve() == pipelines_folder().resolve()
    config, folder = (None, None) if here else (path, str(request.folder))
    return Made(answers.name, config, folder, request.file, request.apply)
