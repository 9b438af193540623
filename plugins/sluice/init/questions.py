"""What `sluice init` is asked for, what it guesses of the events, and the six questions. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from sluice.config.event import ENVELOPE, JSON, Codec
from sluice.config.types import check_name
from sluice.errors import WrongUse
from sluice.field_path import header_of, names_of
from sluice.infer.types import REJECTED_ROWS, epoch_digits, is_instant, names_time
from sluice.infer.values import Kind, is_local, kind_of
from sluice.time_grammar import TEXT, TimeFormat, unit_of

NONE, ALL = "-", "*"
SCHEMA = "{schema: true}"
"""The type is the name of the message's schema."""
SAMPLE = 5_000
"""Records that are read."""


@dataclass(frozen=True)
class MessageForm:
    """How the records' bytes say an event: `kind` is json, avro or protobuf. `schema` is a .avsc or .proto
    file, of which `message` is meant; `registry` an Airflow connection. `change`: how a message says what
    changed in a table; empty where it is an event itself. `rows`: array, lines or field (`field`, with the
    rest of the message as `envelope`); empty where a message is one event."""

    kind: str = JSON
    schema: Path | None = None
    message: str | None = None
    registry: str | None = None
    change: str = ""
    unpack: Codec | None = None
    surrogates: str = ""
    rows: str = ""
    field: str = ""
    envelope: str = ENVELOPE


@dataclass(frozen=True)
class InitRequest:
    """A topic to be sampled, or a `file` (`-` is standard input). What is None is asked, or decided from the
    sample; an empty `type` or `time` field means that the topic, or the record, says it. A `type` may be
    SCHEMA.

    Args:
        bootstrap: Brokers; without them the Airflow connection `connection`.
        not_null: Fields that no event lacks, `a,b`; NONE for none, ALL for all that no sampled event lacks.
        folder: Where pipeline file and statements are written.
        unfit_values: Share of a field's values that its column may refuse.
        editor_schema: Name of the JSON Schema in `folder`, with which editors know the keys; empty without
            one.
    """

    name: str | None
    topic: str | None
    file: str | None
    bootstrap: str | None
    connection: str
    clickhouse: str
    folder: Path
    type: str | None = None
    time: str | None = None
    database: str | None = None
    lake: str | None = None
    sample: int = SAMPLE
    unfit_values: float = REJECTED_ROWS
    force: bool = False
    apply: bool = False
    editor_schema: str = ""
    form: MessageForm = MessageForm()
    not_null: str | None = None


_TYPES = ("type", "event_type", "eventtype", "event_name", "eventname", "event", "kind", "action", "name")
_TIMES = ("timestamp", "time", "event_time", "eventtime", "ts", "at", "occurred_at", "created_at")
_LEAST = 0.999  # of the events have it: others would be rejected
_MOST_TYPES = 1_000
_LEVELS = 2


@dataclass(frozen=True)
class TimeField:
    """A dotted path, and how the time is written there; `zone` where a time has no offset: UTC, until
    somebody says another."""

    field: str
    format: TimeFormat
    zone: str | None = None


@dataclass(frozen=True)
class EventGuess:
    """The fields that can be the type, and the time, the likeliest first; the type may be SCHEMA, too."""

    types: tuple[str, ...]
    times: tuple[TimeField, ...]


def of_changes(events: Sequence[Mapping[str, Any]]) -> EventGuess:
    """Returns the topic as the type, for a table's changes have one of their own, and as the time that of the
    source, where all changes have it."""
    at = "__source.ts_ms"
    stamped = all(
        isinstance(event.get("__source"), Mapping) and "ts_ms" in event["__source"] for event in events
    )
    return EventGuess((), (TimeField(at, "epoch_ms"),) if stamped else ())


def guess(events: Sequence[Mapping[str, Any]], schemas: int = 0) -> EventGuess:
    """Guesses type and time among the fields that nearly all events have. A type has one of the usual names,
    and few values; a time is spelled as one, and one of a usual name goes first. `schemas`: how many the
    events have, where they are decoded."""
    values_by_path = fields_of(events)
    least = _LEAST * len(events)
    types = [path for path, values in values_by_path.items() if _may_be_type(path, values, least)]
    times = [
        TimeField(path, written, "UTC" if written == TEXT and any(map(is_local, values)) else None)
        for path, values in values_by_path.items()
        if (written := _time_format(path, values, least)) is not None
    ]
    return EventGuess(
        (*sorted(types, key=_rank(_TYPES)), *([SCHEMA] if schemas > 1 else [])),
        tuple(
            sorted(times, key=lambda time: (*_rank(_TIMES)(time.field), not names_time(_last(time.field))))
        ),
    )


def fields_of(events: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of fields down to a level, by dotted path; of names that a path cannot say none."""
    values_by_path: dict[str, list[Any]] = {}
    for event in events:
        for path, value in _walk(event, ()):
            values_by_path.setdefault(path, []).append(value)
    return values_by_path


def _walk(event: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in event.items():
        if not all(names_of(name)) or not name.isprintable():
            continue
        if isinstance(value, Mapping) and len(above) + 1 < _LEVELS:
            yield from _walk(value, (*above, name))
        elif value is not None:
            yield ".".join((*above, name)), value


def _may_be_type(path: str, values: Sequence[Any], least: float) -> bool:
    if _last(path).lower() not in _TYPES or not all(isinstance(value, str) and value for value in values):
        return False
    different = len(set(values))
    return len(values) >= max(least, 1) and different <= max(
        _MOST_TYPES // 10, min(_MOST_TYPES, len(values) // 10)
    )


def _time_format(path: str, values: Sequence[Any], least: float) -> TimeFormat | None:
    """Returns None for what is no time."""
    counted = Counter(_spelled(value, names_time(_last(path))) for value in values)
    written, count = counted.most_common(1)[0]
    return written if written is not None and count >= max(least, 1) else None


def _spelled(value: Any, named: bool) -> TimeFormat | None:
    kind = kind_of(value)
    if kind is Kind.TEXT:
        return TEXT if is_instant(value) else None
    if kind is not Kind.NUMBER or not named or epoch_digits(value) is None:
        return None
    return cast("TimeFormat | None", unit_of(value))


_CLOUD_EVENT = re.compile("ce[_-]")
"""Before an attribute of a CloudEvent that has its data alone as value."""


def _last(path: str) -> str:
    """Returns the name of a field, or of a header without what marks it as a CloudEvent's."""
    header = header_of((path,))
    return path.rpartition(".")[2] if header is None else _CLOUD_EVENT.sub("", header, count=1)


def _rank(names: Sequence[str]) -> Callable[[str], tuple[int, int]]:
    """Returns a sort key: outer fields first, headers behind all, then those of the likeliest name."""

    def rank(path: str) -> tuple[int, int]:
        header, name = header_of((path,)), _last(path).lower()
        level = path.count(".") if header is None else -1 if _CLOUD_EVENT.match(header) else _LEVELS
        return (level, names.index(name) if name in names else len(names))

    return rank


LAKE = "${SLUICE_LAKE:-file://${SLUICE_HOME:-var}/lake}"
_OTHERS = 5
_NAME = 63  # characters


@dataclass(frozen=True)
class Question:
    """`key` is the field of the request that it answers."""

    key: str
    text: str
    default: str


@dataclass(frozen=True)
class InitChoices:
    """All that is decided before the files are written. `type` None: the topic says it, SCHEMA: the schema.
    `time` None: the record's own time is the event's. `not_null`: fields that no event lacks; ALL is each
    that no sampled event lacks."""

    name: str
    type: str | None
    time: TimeField | None
    database: str
    lake: str
    not_null: tuple[str, ...] = ()


def questions(request: InitRequest, guessed: EventGuess) -> list[Question]:
    """Returns the questions that no option has answered; the database's default is the answer to the name."""
    name = default_name(request)
    types, times = [*guessed.types, NONE], [*(time.field for time in guessed.times), NONE]
    asked = [
        Question("name", "name of the pipeline", name),
        Question(
            "type",
            f"field that says an event's type{_others(types)} ({NONE}: each topic is a type)",
            types[0],
        ),
        Question("time", f"field that says its time{_others(times)} ({NONE}: the record's own)", times[0]),
        Question("database", "database of the tables", ""),
        Question(
            "not_null",
            f"fields that no event lacks, such as id,total ({NONE}: any may be missing, so its column is "
            f"Nullable; {ALL}: all that no sampled event lacks)",
            NONE,
        ),
        Question("lake", "the lake: file://folder or s3://bucket/prefix", LAKE),
    ]
    return [question for question in asked if getattr(request, question.key) is None]


def ask(request: InitRequest, guessed: EventGuess, answer: Callable[[Question], str]) -> InitChoices:
    """Asks what is not answered. Raises WrongUse for a name that a pipeline cannot have, and for a time field
    that holds no times."""
    for question in questions(request, guessed):
        if question.key == "database":
            question = replace(question, default=database_of(request.name or default_name(request)))
        reply = answer(question).strip() or question.default
        request = replace(request, **{question.key: reply})  # type: ignore[arg-type]
    name = checked_name(request.name or default_name(request))
    kind = None if request.type in (None, "", NONE) else request.type
    return InitChoices(
        name,
        kind,
        _time(request.time, guessed),
        _checked_database(request.database or database_of(name)),
        request.lake or LAKE,
        _names(request.not_null or NONE),
    )


def _names(text: str) -> tuple[str, ...]:
    return () if text.strip() == NONE else tuple(name.strip() for name in text.split(",") if name.strip())


def _time(field: str | None, guessed: EventGuess) -> TimeField | None:
    if field in (None, "", NONE):
        return None
    times = {time.field: time for time in guessed.times}
    if field not in times:
        names = ", ".join(times) or "none"
        raise WrongUse(f"field {field!r} does not hold a time in nearly every event; these do: {names}")
    return times[field]


def checked_name(name: str) -> str:
    """Raises WrongUse for what can be no file's, no DAG's and no database's name."""
    try:
        return check_name(name)
    except ValueError as error:
        raise WrongUse(f"name {name[:99]!r}: {error}") from error


def _checked_database(name: str) -> str:
    if "." in name:
        raise WrongUse(f"database {name[:99]!r}: expected a name without a dot, which ends it in the file")
    return name


def default_name(request: InitRequest) -> str:
    """Returns the topic's, else the file's, in the characters that a pipeline's name may have."""
    source = request.topic or re.sub(r"\..*", "", (request.file or "").rpartition("/")[2])
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", source).strip("_")[:_NAME]
    return plain or "events"


def database_of(name: str) -> str:
    return re.sub(r"\W+", "_", name).lower()


def _others(names: Sequence[str]) -> str:
    more = [name for name in names[1 : _OTHERS + 1] if name != NONE]
    return f", or {', '.join(more)}" if more else ""
