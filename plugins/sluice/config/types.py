"""Durations, instants, names and sizes as pipeline files write them: `15m`, `2026-11-01T00:00Z`, `64MiB`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from sluice.errors import WrongUse
from sluice.field_path import checked_path
from sluice.slices import bounded

# What every part of a pipeline file is: unknown keys are refused, and nothing changes it.


class WrongKey(ValueError):
    """Says that what stands at `place` (keys and positions, below the mapping that is validated) is wrong."""

    def __init__(self, place: tuple[int | str, ...], expected: str) -> None:
        super().__init__(f"{'.'.join(map(str, place))}: {expected}")
        self.place, self.expected = place, expected


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, value: object, info: ValidationInfo) -> object:
        """Refuses true where a number is expected: pydantic takes it for 1."""
        field = cls.model_fields[str(info.field_name)]
        parsed = any(
            isinstance(annotation, BeforeValidator) for annotation in field.metadata
        )  # it says what it expects
        if isinstance(value, bool) and not parsed and _takes_number(field.annotation):
            raise ValueError(f"expected a number, not {str(value).lower()}")
        return value


def _takes_number(hint: Any) -> bool:
    return hint in (int, float) or any(map(_takes_number, get_args(hint)))


TEXT = {"type": "string"}
VARIABLE = {"type": "string", "pattern": r"\$\{"}
"""In the JSON Schema: `${NAME}`."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MOST = timedelta(days=36_500)  # the calendar holds it on both sides of any slice


def _written(pattern: str, *others: dict[str, str]) -> WithJsonSchema:
    """Returns how a value is written, in the JSON Schema: a text, a variable or one of the `others`."""
    text = {"type": "string", "pattern": rf"^{pattern}$|\$\{{"}
    return WithJsonSchema({"anyOf": [*others, text]} if others else text)


def _as_yaml(value: Any) -> str:
    """Returns a value as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def parse_duration(value: Any) -> timedelta:
    """Raises ValueError when `value` is neither a timedelta nor a text such as `15m`."""
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(r"([0-9]+)([smhd])", str(value))
    if found is None:
        raise ValueError(f"expected a duration such as 90s, 15m, 1h or 7d, not {_as_yaml(value)}")
    try:
        length = timedelta(**{_UNITS[found[2]]: int(found[1])})
    except (OverflowError, ValueError):  # Python reads no integer of more than 4300 digits
        length = timedelta.max
    if length > _MOST:
        raise ValueError(f"expected a duration of at most {_MOST.days} days, not {str(value)[:40]}")
    return length


def _parse_optional(value: Any) -> timedelta | None:
    return None if value in (None, "none") else parse_duration(value)


def _parse_share(value: Any) -> float | None:
    if value in (None, "none"):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"expected a share between 0 and 1, or none, not {str(value)[:40]!r}")
    return float(value)


OptionalShare = Annotated[float | None, BeforeValidator(_parse_share)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration), _written("[0-9]+[smhd]")]
OptionalDuration = Annotated[
    timedelta | None, BeforeValidator(_parse_optional), _written("([0-9]+[smhd]|none)")
]


def _parse_timeout(value: Any) -> timedelta | str:
    if isinstance(value, str) and value in ("auto", "none"):
        return value
    length = parse_duration(value)
    if not length:
        raise ValueError("expected a duration of more than 0s, auto or none")
    return length


Timeout = Annotated[
    timedelta | Literal["auto", "none"], BeforeValidator(_parse_timeout), _written("([0-9]+[smhd]|auto|none)")
]


def _instant(value: datetime) -> datetime:
    try:
        return bounded(value)
    except WrongUse as error:
        raise ValueError(str(error)) from error


Instant = Annotated[datetime, AfterValidator(_instant), WithJsonSchema(TEXT)]


class FromGroup(Section):
    """A consumer group that has read what lies before its committed offsets."""

    group: str = Field(min_length=1)


def _start(value: Any) -> Any:
    if isinstance(value, FromGroup):
        return value
    if isinstance(value, Mapping):
        if value.keys() != {"group"} or not isinstance(value["group"], str) or not value["group"]:
            raise ValueError("expected an instant, or {group: NAME}")
        return FromGroup(group=value["group"])
    return _INSTANT.validate_python(value)


_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
Start = Annotated[
    Instant | FromGroup,
    BeforeValidator(_start),
    WithJsonSchema(
        {
            "anyOf": [
                TEXT,
                {
                    "type": "object",
                    "properties": {"group": TEXT},
                    "required": ["group"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def check_name(value: str) -> str:
    """Names that become folders, file names and table names have to be plain."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]{0,62}", value):
        raise ValueError("expected letters, digits, _ and . only, at most 63")
    return value


PlainName = Annotated[str, AfterValidator(check_name), _written("[A-Za-z0-9][A-Za-z0-9_.]{0,62}")]
DottedPath = Annotated[str, AfterValidator(checked_path)]


MOST_PLACES = 8
"""Of a column's field."""


def _checked_field(value: Any) -> Any:
    paths = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(path, str) for path in paths):
        raise ValueError(f"expected a path or a list of paths, not {_as_yaml(value)}")
    if not 0 < len(set(paths)) == len(paths) <= MOST_PLACES:
        raise ValueError(f"expected 1 to {MOST_PLACES} different paths")
    checked = tuple(map(checked_path, paths))
    return checked if len(checked) > 1 else checked[0]


_PATH = {"type": "string"}
FirstField = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_checked_field),
    WithJsonSchema(
        {"anyOf": [_PATH, {"type": "array", "items": _PATH, "minItems": 1, "maxItems": MOST_PLACES}]}
    ),
]
"""The path of a column's field, or several: one of them is the same as the path."""


OWN_DATABASES = ("sluice", "system", "information_schema")


_MOST_OF_TABLE = 200  # bytes: it is the name of a file


def check_table(value: str) -> str:
    """Tables are `database.table`, and not in a database of Sluice's or ClickHouse's own. The first dot
    divides them, and what follows it is the table's name as it is, without quotes."""
    database, _, name = value.partition(".")
    if not database or not name:
        raise ValueError(f"expected database.table, not {value!r}")
    if "`" in (database[0], name[0]) or '"' in (database[0], name[0]):
        raise ValueError(f"names have no quotes of SQL: the first dot of {value!r} divides them")
    if len(re.sub(r"[^\w.-]", "%XX", value).encode()) > _MOST_OF_TABLE:
        raise ValueError(f"a table's name has at most {_MOST_OF_TABLE} bytes, and each sign counts as three")
    if database.lower() in OWN_DATABASES:
        whose = "Sluice keeps its ledger there" if database.lower() == "sluice" else "it is ClickHouse's own"
        raise ValueError(f"no table can be in the database {database}: {whose}")
    return value


QualifiedTable = Annotated[str, AfterValidator(check_table)]
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_size(value: Any) -> int:
    """Bytes. Raises ValueError when `value` is neither their number nor a text such as `64MiB`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"([0-9]{1,9}) ?([KMG]iB)", str(value))
    if found is None:
        raise ValueError(f"expected a size such as 900KiB, 64MiB or 1GiB, not {_as_yaml(value)}")
    return int(found[1]) * _BYTES[found[2]]


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    _written("[0-9]+([KMG]iB)?", {"type": "integer"}),
]
