"""The six questions, each with the answer that is right most of the time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluice.config.types import check_name
from sluice.errors import WrongUse
from sluice.init.guess import EventGuess, TimeField
from sluice.init.request import ALL, NONE, InitRequest

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
    """All that is decided before the files are written. `type` None: the topic says it; `time` None: the
    record's own time is the event's. `not_null`: fields that no event lacks; ALL is each that no sampled
    event lacks."""

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
        request.database or database_of(name),
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
