"""Why a record could not be landed as a row. Short constant texts: manifests count by them.

A reason that only one format gives stands in that format's file in formats/.
"""

from __future__ import annotations

NO_VALUE = "no value"
NOT_UTF8 = "not UTF-8"
NOT_JSON = "not JSON"
NESTED_TOO_DEEP = "nested too deep"
NOT_AN_OBJECT = "not an object"
NOT_AN_ARRAY = "not an array"
NOT_FRAMED = "no schema id in front"
UNKNOWN_SCHEMA = "unknown schema id"
TOO_MANY_UNKNOWN_SCHEMAS = "too many unknown schema ids"
TOO_MANY_SCHEMAS = "too many large schemas in turn"
OTHER_SCHEMA = "schema of another kind or message"
UNREADABLE_SCHEMA = "schema that cannot be used"
NO_TYPE = "no type"
TYPE_NOT_STRING = "type is not a string"
TYPE_TOO_LONG = "type too long"
TOO_MANY_TYPES = "too many types"
NO_TIME = "no time"
TIME_NOT_UNDERSTOOD = "time not understood"
TIME_OUT_OF_RANGE = "time out of range"
TOO_MANY_HOURS = "too many event hours"
FIELD_TWICE = "a field is there twice"
TOO_LARGE = "too large"
BECOMES_TOO_LARGE = "too large when decoded"
TOO_MANY_VALUES = "too many values"
SHIPPED_TWICE = "shipped twice"
TOO_MANY_BATCHES = "too many batches"

NO_FIX = (NO_VALUE, SHIPPED_TWICE, TOO_LARGE)
"""Of such a record no change of the pipeline file makes a row out of what the lake has."""


class Rejected(Exception):
    """One record's verdict, inside the parser only; `reason` is one of these texts."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def reason_of(verdict: Rejected | MemoryError) -> str:
    """Returns why one record is rejected. What memory it asks for in vain is no reason for a task to fail."""
    return verdict.reason if isinstance(verdict, Rejected) else BECOMES_TOO_LARGE


class BadSchema(ValueError):
    """A schema that cannot be used; the text says why."""
