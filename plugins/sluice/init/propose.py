"""From a sample and the answers to all that will be written. Pure but for the reader's questions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sluice.config.event import Event
from sluice.config.files import read
from sluice.config.message_format import JSON
from sluice.doctor.columns import landed_fields
from sluice.doctor.events import EventSample, parse
from sluice.errors import WrongPipeline, WrongUse
from sluice.flow.land.task.decode import decoding_of
from sluice.flow.land.task.times import READERS
from sluice.flow.load.casts.columns import RULES
from sluice.init.draft import (
    Existing,
    PlannedTable,
    named_tables,
    pipeline_text,
    plan_tables,
    statements_text,
)
from sluice.init.questions import (
    ALL,
    EventGuess,
    InitChoices,
    InitRequest,
    MessageForm,
    TimeField,
    events_of,
    fields_of,
    guess,
)
from sluice.init.sample import Sample, decoded_values, expected_messages, json_values, read_event
from sluice.safe_text import line


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
    """Raises WrongUse where no record of the sample is an event, and what `read_events` raises."""
    values = decoded_values(sample, form, folder) if form.kind != JSON else json_values(sample)
    events, arrays = events_of(values)
    if not events:
        raise WrongUse(f"none of {sample.source} is a JSON object: {expected_messages(sample)}")
    return guess(events, arrays)


def read_events(sample: Sample, event: Event) -> EventSample:
    """Returns the events of the sample as the landing reads them. Raises WrongUse where there are none, and
    what a schema or its registry raises."""
    parsed = parse(event, sample.records, decoding_of(event))
    if not parsed.events:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in parsed.refused.items())
        raise WrongUse(f"none of {sample.source} can be landed: {reasons}: name `--type` and `--time`")
    return parsed


def event_model(request: InitRequest, answers: InitChoices, arrays: bool) -> Event:
    time = answers.time
    return read_event(
        {
            "type": {"topic": True} if answers.type is None else {"field": answers.type},
            "time": {"record": True} if time is None else {"field": time.field, "format": time.format},
            "rows": "array" if arrays else "one",
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
    arrays: bool,
    ask_existing: Callable[[Sequence[str]], Existing],
) -> PipelineProposal:
    """Proposes the pipeline. `ask_existing` gives those of the tables that exist. Raises WrongPipeline for an
    answer that no pipeline file may have, and WrongUse for a `not_null` that no event has."""
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in parsed.events:
        events[item.type].append(item.event)
    names = named_tables(parsed.types(), answers.database)
    rules = replace(RULES, unfit_values=request.unfit_values)
    always = never_missing(answers, events.values())
    tables = tuple(plan_tables(events, names, ask_existing(list(names.values())), rules, arrays, always))
    pipeline = pipeline_text(request, answers, topic, arrays, tables, sample.source)
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
    landed = landed_fields(answers.type, answers.time.field if answers.time else None)
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
    numbers = values if time.format == "iso8601" else [float(value) for value in values]
    times, refused = READERS[time.format](numbers)
    return [int(ms) for number, ms in enumerate(times) if number not in refused]
