"""What a person can do about rejected records, by reason. Pure."""

from __future__ import annotations

import re

from sluice.flow.land import reject_reasons as why
from sluice.flow.load.casts.judged import MISSING

# Reasons that only one format gives; its decoder is not imported for them.
OF_FORMATS = (
    "not Avro of its schema",
    "does not fit the reader's schema",
    "not Protobuf of its message",
)
_RETRY = "retry the rejected records"
_PRODUCER = "correct the producer: such a record becomes no row"
_TYPE = f"let `event.type` name the field or header that has it, or correct the producer; then {_RETRY}"
_TIME = f"let `event.time` name the field and its format, or correct the producer; then {_RETRY}"
_SCHEMA = f"give the registry, or the file that `event` names, the schema of these messages; then {_RETRY}"
_REMEDIES = {
    why.NO_VALUE: "a record without a value is a tombstone: nothing, or correct the producer",
    why.NO_TYPE: _TYPE,
    why.TYPE_NOT_STRING: _TYPE,
    why.TYPE_TOO_LONG: _TYPE,
    why.TOO_MANY_TYPES: "let `event.type` name a field with few values: each of them is a folder of the lake",
    why.NO_TIME: _TIME,
    why.TIME_NOT_UNDERSTOOD: _TIME,
    why.TIME_OUT_OF_RANGE: _TIME,
    why.TOO_MANY_HOURS: f"set `max_late` where years of events are published at once; then {_RETRY}",
    why.NOT_FRAMED: _SCHEMA,
    why.UNKNOWN_SCHEMA: _SCHEMA,
    why.TOO_MANY_UNKNOWN_SCHEMAS: _SCHEMA,
    why.OTHER_SCHEMA: _SCHEMA,
    why.UNREADABLE_SCHEMA: _SCHEMA,
    **dict.fromkeys(OF_FORMATS, _SCHEMA),
    why.TOO_LARGE: "raise `max_record` where such records are meant; then `reland`, while Kafka has them",
    why.BECOMES_TOO_LARGE: f"raise `max_record` where such records are meant; then {_RETRY}",
    why.NOT_AN_ARRAY: f"set or remove `rows: array` as the messages are; then {_RETRY}",
    why.NOT_AN_OBJECT: (
        f"set `rows: array` where messages are arrays of objects, or correct the producer; then {_RETRY}"
    ),
    why.TOO_MANY_BATCHES: f"remove `event.batch`, or publish fewer files at once; then {_RETRY}",
    why.SHIPPED_TWICE: "nothing: the same event is there once",
}
REJECTED_ROW_REMEDY = (
    f"give the column a type that takes it, then {_RETRY}; if `columns` names another field than is meant, "
    "correct it and `reload` the hours; or correct the producer"
)
MISSING_REMEDY = f"let `missing` of the table take a default, then {_RETRY}; or correct the producer"
FORGOTTEN_REJECTED_ROW_REMEDY = (
    "the lake has forgotten the hour's files: give the column a type that takes it, then "
    "`reland` the hour, as long as Kafka has it; or correct the producer"
)


def remedy_of(reason: str, unfit: bool) -> str:
    if unfit:
        return MISSING_REMEDY if reason == MISSING else REJECTED_ROW_REMEDY
    return _REMEDIES.get(reason, _PRODUCER)


def fix_of(reason: str, unfit: bool) -> str:
    """Returns the remedy without its last step, for who is shown the command of that."""
    return re.sub(rf"[,;] then {_RETRY}", "", remedy_of(reason, unfit))


def retryable(reason: str, unfit: bool) -> bool:
    """Returns whether a fix of the file or the table can bring such records in out of the lake."""
    return unfit or reason not in why.NO_FIX
