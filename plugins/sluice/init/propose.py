"""From a sample and the answers to all that will be written. Pure but for the reader's questions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sluice.clients.clickhouse.sql import Sql, identifier, render
from sluice.config.event import Event
from sluice.config.files import read
from sluice.config.pipeline import CATCH_ALL
from sluice.config.yaml_text import scalar
from sluice.doctor.events import EventSample, parse
from sluice.doctor.proposed_tables import (
    ProposedColumns,
    columns_of,
    create_table,
    entry,
    landed_fields,
    table_name,
)
from sluice.errors import WrongPipeline, WrongUse
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.land.task.times import read_times
from sluice.flow.load.casts.columns import RULES
from sluice.infer.types import Rules
from sluice.init.questions import (
    ALL,
    SCHEMA,
    EventGuess,
    InitChoices,
    InitRequest,
    MessageForm,
    TimeField,
    fields_of,
    guess,
    of_changes,
)
from sluice.init.sample import (
    Sample,
    form_keys,
    opened_events,
    read_event,
)
from sluice.safe_text import line, visible
from sluice.state.departed_tables import lacking
from sluice.time_grammar import Spelled

# Which tables there will be, and the text of the pipeline file and of the statements.

LEAST_SHARE = 0.01
"""Of the events of a type that gets a table of its own; the others go to the catch-all."""
MOST_TABLES = 50
_CATCH_ALL_NAME = "other"

Existing = Mapping[str, Sequence[str]]
"""The columns of the tables that are there, by `database.table`."""


@dataclass(frozen=True)
class PlannedTable:
    """`type` is `*` for the catch-all; `existing`: the table is there and stays as it is; `lacking`: what it
    needs before it can be loaded; `arrays`: messages are arrays of events."""

    type: str
    table: str
    events: int
    columns: ProposedColumns = field(default_factory=lambda: ProposedColumns({}, {}))
    existing: bool = False
    arrays: bool = False
    lacking: str = ""

    @property
    def entry(self) -> str:
        return entry(self.type, self.table, self.columns)

    @property
    def statement(self) -> Sql:
        """Creates the table unless it exists: so statements that were cut short can be run again."""
        return create_table(
            self.table, self.columns.columns, self.arrays, self.type == CATCH_ALL, unless_there=True
        )


def named_tables(types: Mapping[str, int], database: str) -> dict[str, str]:
    """Returns the table of each type that has its own, then of the catch-all; `types` counts the sampled
    events."""
    total = sum(types.values())
    ranked = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    frequent = [kind for kind, count in ranked if count >= LEAST_SHARE * total and kind != CATCH_ALL]
    tables: dict[str, str] = {}
    for kind in frequent[:MOST_TABLES]:
        tables[kind] = _unique(f"{database}.{table_name(kind)}", tables)
    tables[CATCH_ALL] = _unique(f"{database}.{_CATCH_ALL_NAME}", tables)
    return tables


def _unique(name: str, tables: Mapping[str, str]) -> str:
    numbered = (name if number == 1 else f"{name}_{number}" for number in range(1, len(tables) + 2))
    return next(candidate for candidate in numbered if candidate not in tables.values())


def plan_tables(
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    names: Mapping[str, str],
    existing: Existing,
    rules: Rules,
    arrays: bool = False,
    always: Collection[str] = (),
) -> Iterator[PlannedTable]:
    """Plans tables for `events` by type; the catch-all keeps the payloads of all types without a table.
    `always`: fields that no event lacks, as somebody says."""
    for kind, name in names.items():
        if kind == CATCH_ALL:
            count = sum(len(type_events) for other, type_events in events.items() if other not in names)
            exists, lacks = name in existing, _lacking(name, existing)
            yield PlannedTable(kind, name, count, existing=exists, arrays=arrays, lacking=lacks)
        elif name in existing:
            paths = paths_into(existing[name], events[kind])
            columns = ProposedColumns({}, paths)
            lacks = _lacking(name, existing)
            yield PlannedTable(kind, name, len(events[kind]), columns, existing=True, lacking=lacks)
        else:
            columns = columns_of(events[kind], rules, always)
            yield PlannedTable(kind, name, len(events[kind]), columns, arrays=arrays)


def _lacking(name: str, existing: Existing) -> str:
    needs = lacking(name, existing[name]) if name in existing else None
    return "; ".join(needs) if needs else ""


def paths_into(columns: Sequence[str], events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the path of each column of an existing table that is named like one, `user_name` for
    `user.name`, and for which there is no field of its own name."""
    outer = {name for event in events for name in event}
    inner = {
        f"{name}_{key}": f"{name}.{key}"
        for event in events
        for name, value in event.items()
        if isinstance(value, Mapping) and "." not in name
        for key in value
        if "." not in key
    }
    return {column: inner[column] for column in columns if column not in outer and column in inner}


_NOTES = 20
_EMBEDDED = "kafka_default"
_CLICKHOUSE = "clickhouse_default"


def pipeline_text(
    request: InitRequest,
    answers: InitChoices,
    topic: str,
    tables: Sequence[PlannedTable],
    source: str,
) -> str:
    """Returns the pipeline file; its keys are those of the reference."""
    time = answers.time
    written = "{record: true}" if time is None else _time_text(time)
    kind = "{topic: true}" if answers.type is None else f"{{field: {scalar(answers.type)}}}"
    kind = SCHEMA if answers.type == SCHEMA else kind
    lines = [
        *([f"# yaml-language-server: $schema={request.editor_schema}"] if request.editor_schema else []),
        f"# Made by `sluice init` from {line(source)}.",
        "kafka:",
        f"  - {{cluster: {cluster_name(request)}, {_address(request)}, topics: [{scalar(topic)}]}}",
        "event:",
        f"  type: {kind}",
        f"  time: {written}",
        *(f"  {key}" for key in form_texts(request)),
        f"lake: {_quoted(answers.lake)}",
        *(
            []
            if request.clickhouse == _CLICKHOUSE
            else [f"clickhouse: {{connection: {scalar(request.clickhouse)}}}"]
        ),
        "tables:",
        *(table.entry for table in tables),
    ]
    return "\n".join(lines) + "\n"


def form_texts(request: InitRequest) -> list[str]:
    """Returns what the file says of the messages' form, key by key."""
    return [f"{key}: {_flow(value)}" for key, value in form_keys(request.form, request.folder).items()]


def cluster_name(request: InitRequest) -> str:
    """Returns a part of every record's identity: the embedded broker is `local`, as in the documents."""
    return "local" if request.bootstrap is None and request.connection == _EMBEDDED else "kafka"


def _address(request: InitRequest) -> str:
    if request.bootstrap is None:
        return f"connection: {scalar(request.connection)}"
    return f"bootstrap: {_quoted(request.bootstrap)}"


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return scalar(value)
    return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"


def _quoted(text: str) -> str:
    """Quotes a text with colons and braces, which a reader expects in quotes."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else scalar(text)


def statements_text(database: str, tables: Iterable[PlannedTable], source: str) -> str:
    """Returns the statements, each with what a reader has to know of it."""
    parts = [f"-- Made by `sluice init` from {line(source)}.", f"{create_database(database)};"]
    for table in tables:
        types = "every other type" if table.type == "*" else f"type {visible(table.type)}"
        parts.append(f"\n-- {table.table}: {table.events:,} events of the sample, {types}")
        if table.existing:
            parts.append("-- The table is there, and stays as it is.")
            continue
        parts += [f"-- {line(note)}" for note in table.columns.notes()[:_NOTES]]
        parts.append(f"{table.statement};")
    return "\n".join(parts) + "\n"


def create_database(database: str) -> str:
    return render("init/create_database", database=identifier(database))


@dataclass(frozen=True)
class PipelineProposal:
    """The texts of both files. `stamps` are the times in ms of the records that there are, or will be once
    the file is published; none where they will have the time of then."""

    pipeline: str
    statements: str
    tables: tuple[PlannedTable, ...]
    sample: EventSample
    stamps: tuple[int, ...]


def guess_event(sample: Sample, form: MessageForm, folder: Path) -> EventGuess:
    """Raises what `opened_events` raises."""
    events, schemas = opened_events(sample, form, folder)
    return of_changes(events) if form.change else guess(events, schemas)


def read_events(sample: Sample, event: Event) -> EventSample:
    """Returns the events of the sample as the landing reads them. Raises WrongUse where there are none, and
    what a schema or its registry raises."""
    parsed = parse(event, sample.records, decoding_of(event))
    if not parsed.events:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in parsed.refused.items())
        raise WrongUse(f"none of {sample.source} can be landed: {reasons}: name `--type` and `--time`")
    return parsed


def _time_source(time: TimeField) -> dict[str, str]:
    zone = {"zone": time.zone} if time.zone else {}
    return {"field": time.field, "format": time.format, **zone}


def _time_text(time: TimeField) -> str:
    zone = f", zone: {time.zone}" if time.zone else ""
    said = "   # no offset in the events: is it UTC?" if time.zone else ""
    return f"{{field: {scalar(time.field)}, format: {time.format}{zone}}}{said}"


def event_model(request: InitRequest, answers: InitChoices) -> Event:
    time = answers.time
    kind = {"topic": True} if answers.type is None else {"field": answers.type}
    return read_event(
        {
            "type": {"schema": True} if answers.type == SCHEMA else kind,
            "time": {"record": True} if time is None else _time_source(time),
        },
        request.form,
        request.folder,
    )


def propose(
    request: InitRequest,
    answers: InitChoices,
    topic: str,
    sample: Sample,
    parsed: EventSample,
    ask_existing: Callable[[Sequence[str]], Existing],
) -> PipelineProposal:
    """Proposes the pipeline. `ask_existing` gives those of the tables that exist. Raises WrongPipeline for an
    answer that no pipeline file may have, and WrongUse for a `not_null` that no event has."""
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in sorted(parsed.events, key=lambda item: item.record.timestamp):
        events[item.type].append(item.event)
    names = named_tables(parsed.types(), answers.database)
    rules = replace(RULES, unfit_values=request.unfit_values)
    always = never_missing(answers, events.values())
    arrays = bool(request.form.rows)
    tables = tuple(plan_tables(events, names, ask_existing(list(names.values())), rules, arrays, always))
    pipeline = pipeline_text(request, answers, topic, tables, sample.source)
    check_pipeline(answers.name, pipeline, request.folder)
    statements = statements_text(answers.database, tables, sample.source)
    if request.file is None:
        stamps = [record.timestamp for record in sample.records]
    else:
        stamps = _event_times(answers.time, [event for some in events.values() for event in some])
    return PipelineProposal(pipeline, statements, tables, parsed, tuple(stamps))


def never_missing(answers: InitChoices, events: Iterable[Sequence[Mapping[str, Any]]]) -> frozenset[str]:
    """Returns the fields that no event lacks, as the answers say, and of the event's type and time. Raises
    WrongUse for one that no sampled event has."""
    landed = landed_fields(
        None if answers.type == SCHEMA else answers.type, answers.time.field if answers.time else None
    )
    sampled = {name for type_events in events for event in type_events for name in event}
    if answers.not_null == (ALL,):
        return landed | sampled
    unknown = [name for name in answers.not_null if name not in sampled]
    if unknown:
        raise WrongUse(f"`--not-null {line(unknown[0])}`: no sampled event has such a field")
    return landed | frozenset(answers.not_null)


def check_pipeline(name: str, text: str, target: Path) -> None:
    """Reads it as every command will once it is in folder `target`. Raises WrongPipeline."""
    with tempfile.TemporaryDirectory(prefix="sluice-init-") as folder:
        path = Path(folder, f"{name}.yaml")
        path.write_text(text, encoding="utf-8")
        try:
            read(path, folder=target.resolve())
        except WrongPipeline as error:
            error.file = path.name
            raise


def _event_times(time: TimeField | None, events: Sequence[Mapping[str, Any]]) -> list[int]:
    if time is None:
        return []
    values = fields_of(events)[time.field]
    numbers = [float(value) if isinstance(value, Decimal) else value for value in values]
    times, refused = read_times(numbers, Spelled(time.format, time.zone))
    return [int(ms) for number, ms in enumerate(times) if number not in refused]
