"""Why a record could not be landed as a row. Short constant texts: manifests count by them.

A reason that only one format gives stands in that format's file in formats/.
"""

from __future__ import annotations

from sluice.manifest import SHIPPED_TWICE, TOMBSTONE
from sluice.time_grammar import EPOCHS

NOT_UTF8 = "not UTF-8"
NOT_JSON = "not JSON"
LINES = "several lines of JSON, and `event` does not say `rows: lines`"
HALF_PAIR = "half a surrogate pair"
FRAMED = "JSON behind a schema id"
NESTED_TOO_DEEP = "nested too deep"
NOT_AN_OBJECT = "not an object"
NOT_AN_ARRAY = "not an array"
NO_ROWS = "no field with rows"
NOT_UNPACKED = "cannot be unpacked"
_NAMED = 20  # messages of one record, so that the reasons are few
_BROKEN, _EARLY = "the length before {} is broken", "{} is shorter than its length"
BROKEN_LENGTHS = tuple(
    text.format(place)
    for place in (*(f"message {number}" for number in range(_NAMED)), f"a message after {_NAMED - 1}")
    for text in (_BROKEN, _EARLY)
)
"""Of several messages in one record, counted from 0 as `_row` counts them."""
NOT_FRAMED = "no schema id in front"
BROKEN_INDEX = "broken message index behind the schema id"
UNKNOWN_SCHEMA = "unknown schema id"
TOO_MANY_UNKNOWN_SCHEMAS = "too many unknown schema ids"
TOO_MANY_SCHEMAS = "too many large schemas in turn"
OTHER_SCHEMA = "schema of another kind or message"
UNREADABLE_SCHEMA = "schema that cannot be used"
NO_TYPE = "no type"
TYPE_NOT_TEXT = "type is neither text nor a whole number"
TYPE_TOO_LONG = "type too long"
TOO_MANY_TYPES = "too many types"
NO_TIME = "no time"
TIME_NOT_UNDERSTOOD = "time not understood"
NO_UNIT = {form: f"time not understood without `format: {form}`" for form in EPOCHS}
"""Of a number whose size says no unit, by the format that reads it."""
TIME_OUT_OF_RANGE = "time out of range"
OTHER_UNIT = {
    form: f"time in {unit}, and `event.time.format` says another unit"
    for form, unit in (
        ("epoch_s", "seconds"),
        ("epoch_ms", "milliseconds"),
        ("epoch_us", "microseconds"),
        ("epoch_ns", "nanoseconds"),
    )
}
"""By the format that reads the times."""
TOO_MANY_HOURS = "too many event hours"
FIELD_TWICE = "a field is there twice"
TOO_LARGE = "too large"
BECOMES_TOO_LARGE = "too large when decoded"
TOO_MANY_VALUES = "too many values"
TOO_MANY_BATCHES = "too many batches"
NOT_A_CHANGE = "not a change of a row"
NO_ROW = "change without its row"
NO_KEY = "delete without a key that names its row"
TRUNCATED = "truncate of a whole table"

NO_FIX = (TOMBSTONE, SHIPPED_TWICE, TOO_LARGE)
"""Of such a record no change of the pipeline file makes a row out of what the lake has."""


def broken_length(number: int) -> str:
    """Returns the reason of a record in which no length stands before this message."""
    return BROKEN_LENGTHS[2 * min(number, _NAMED)]


def ends_early(number: int) -> str:
    """Returns the reason of a record that ends inside this message."""
    return BROKEN_LENGTHS[2 * min(number, _NAMED) + 1]


class Rejected(Exception):
    """One record's verdict, inside the parser only; `reason` is one of these texts."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def reason_of(verdict: Rejected | MemoryError) -> str:
    """Returns why one record is rejected. What memory it asks for in vain is no reason for a task to fail."""
    return verdict.reason if isinstance(verdict, Rejected) else BECOMES_TOO_LARGE


class BadSchema(ValueError):
    """A schema that cannot be used; the text says why."""
