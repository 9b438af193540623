"""From a sample and the answers to all that will be written. Pure but for the reader's questions."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sluice.config.event import Event
from sluice.config.files import read
from sluice.doctor.events import EventSample, parse
from sluice.doctor.fillable import RULES
from sluice.errors import WrongPipeline, WrongUse
from sluice.flow.land.task.count_fields import deeper
from sluice.flow.land.task.times import READERS
from sluice.infer.values import loads
from sluice.init.draft import pipeline_text, statements_text
from sluice.init.guess import EventGuess, TimeField, events_of, fields_of, guess
from sluice.init.questions import Answers
from sluice.init.request import InitRequest
from sluice.init.sample import Sample
from sluice.init.tables import Existing, PlannedTable, named_tables, plan_tables


@dataclass(frozen=True)
class Proposal:
    """The texts of both files. `stamps` are the times in ms of the records that there are, or will be once
    the file is published; none where they will have the time of then."""

    pipeline: str
    statements: str
    tables: tuple[PlannedTable, ...]
    sample: EventSample
    stamps: tuple[int, ...]


def guess_event(sample: Sample) -> EventGuess:
    """Raises WrongUse where no record of the sample is an object."""
    values = []
    with deeper():
        for record in sample.records:
            with suppress(ValueError, RecursionError):  # what is no event, the landing's own parser counts
                values.append(loads((record.value or b"").decode()))
    events, arrays = events_of(values)
    if not events:
        raise WrongUse(f"none of {sample.source} is a JSON object: expected events in JSON")
    return guess(events, arrays)


def read_events(sample: Sample, answers: Answers, arrays: bool) -> EventSample:
    """The events of the sample as the landing reads them. Raises WrongUse where there are none."""
    found = parse(event_model(answers, arrays), sample.records)
    if not found.events:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in found.refused.items())
        raise WrongUse(f"none of {sample.source} can be landed: {reasons}: name `--type` and `--time`")
    return found


def event_model(answers: Answers, arrays: bool) -> Event:
    time = answers.time
    return Event.model_validate(
        {
            "type": {"topic": True} if answers.type is None else {"field": answers.type},
            "time": {"record": True} if time is None else {"field": time.field, "format": time.format},
            "rows": "array" if arrays else "one",
        }
    )


def propose(
    request: InitRequest,
    answers: Answers,
    topic: str,
    sample: Sample,
    found: EventSample,
    arrays: bool,
    ask_existing: Callable[[Sequence[str]], Existing],
) -> Proposal:
    """`ask_existing` gives those of the tables that are there. Raises WrongPipeline for an answer that no
    pipeline file may have."""
    events: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in found.events:
        events[item.type].append(item.event)
    names = named_tables(found.types(), answers.database)
    rules = replace(RULES, misfits=request.misfits)
    tables = tuple(plan_tables(events, names, ask_existing(list(names.values())), rules))
    pipeline = pipeline_text(request, answers, topic, arrays, tables, sample.source)
    check_pipeline(answers.name, pipeline)
    statements = statements_text(answers.database, tables, sample.source)
    if request.file is None:
        stamps = [record.timestamp for record in sample.records]
    else:
        stamps = _event_times(answers.time, [event for some in events.values() for event in some])
    return Proposal(pipeline, statements, tables, found, tuple(stamps))


def check_pipeline(name: str, text: str) -> None:
    """Reads it as every command will. Raises WrongPipeline."""
    with tempfile.TemporaryDirectory(prefix="sluice-init-") as folder:
        path = Path(folder, f"{name}.yaml")
        path.write_text(text, encoding="utf-8")
        try:
            read(path)
        except WrongPipeline as error:
            error.file = path.name
            raise


def _event_times(time: TimeField | None, events: Sequence[Mapping[str, Any]]) -> list[int]:
    if time is None:
        return []
    values = fields_of(events)[time.field]
    numbers = values if time.format == "iso8601" else [float(value) for value in values]
    found, refused = READERS[time.format](numbers)
    return [int(ms) for number, ms in enumerate(found) if number not in refused]
