"""Avro's binary encoding, by fastavro."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import fastavro
import msgspec
from fastavro import _read_py
from fastavro.read import LOGICAL_READERS, SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import (
    BOUND,
    Room,
    Size,
    bytes_within,
    far_day,
    far_instant,
    instant_text,
    json_text,
)
from sluice.flow.land.formats import connect_types
from sluice.flow.land.formats.avro_sizes import (
    ReaderSizes,
    SchemaSizes,
    Walk,
    counted_walk_of,
    leading_number,
    walk_of,
)
from sluice.flow.land.reject_reasons import BadSchema, Rejected

# Values of Avro's logical types, out of the plain ones, for fastavro to call.
#
# They are registered under names of our own: its own readers round a decimal to its precision, take a time
# below zero for another one, and refuse the whole message for a date beyond the year 9999. What cannot be
# shown as its type stays the number or text that it is.

MOST_DECIMAL_BYTES = 1_024
"""Of a decimal: making digits of bytes takes time that grows with their square."""
_UNIX_DAY = date(1970, 1, 1).toordinal()
_INSTANT, _LOCAL = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)
_DAY = 86_400_000_000  # microseconds


def decimal(unscaled: bytes, schema: Mapping[str, Any]) -> str:
    """Returns all digits, whatever the precision says. Raises Rejected for more than MOST_DECIMAL_BYTES."""
    if len(unscaled) > MOST_DECIMAL_BYTES:
        raise Rejected(reject_reasons.BECOMES_TOO_LARGE)
    number, scale = int.from_bytes(unscaled, "big", signed=True), schema["scale"]
    digits = str(abs(number)).zfill(scale + 1)
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"


def day(number: int, _schema: object) -> date | str:
    try:
        return date.fromordinal(_UNIX_DAY + number)
    except (ValueError, OverflowError):
        return far_day(number)


def uuid(content: bytes, _schema: object) -> UUID:
    return UUID(bytes=content)


def duration(content: bytes, _schema: object) -> str:
    """Returns months, days and milliseconds as ISO 8601 has them: `P1M2DT3.004S`."""
    months, days, millis = (int.from_bytes(content[at : at + 4], "little") for at in (0, 4, 8))
    return f"P{months}M{days}DT{millis // 1000}.{millis % 1000:03}S"


def _time(unit: int) -> Callable[[int, object], time | int]:
    def read(number: int, _schema: object) -> time | int:
        if not 0 <= number * unit < _DAY:
            return number
        seconds, micros = divmod(number * unit, 1_000_000)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)

    return read


def _instant(start: datetime, unit: int) -> Callable[[int, object], datetime | str]:
    def read(number: int, _schema: object) -> datetime | str:
        try:
            return start + timedelta(microseconds=number * unit)
        except OverflowError:
            seconds, micros = divmod(number * unit, 1_000_000)
            return f"{far_instant(seconds, micros * 1_000)}{'Z' if start.tzinfo else ''}"

    return read


def _nanos(zone: str) -> Callable[[int, object], str | int]:
    def read(number: int, _schema: object) -> str | int:
        seconds, nanos = divmod(number, 1_000_000_000)
        return f"{instant_text(seconds, nanos)}{zone}"

    return read


LOGICAL_TYPES: Mapping[tuple[str, str], Callable[[Any, Any], Any]] = {
    ("bytes", "decimal"): decimal,
    ("fixed", "decimal"): decimal,
    ("fixed", "uuid"): uuid,
    ("fixed", "duration"): duration,
    ("int", "date"): day,
    ("int", "time-millis"): _time(1_000),
    ("long", "time-micros"): _time(1),
    ("long", "timestamp-millis"): _instant(_INSTANT, 1_000),
    ("long", "timestamp-micros"): _instant(_INSTANT, 1),
    ("long", "timestamp-nanos"): _nanos("Z"),
    ("long", "local-timestamp-millis"): _instant(_LOCAL, 1_000),
    ("long", "local-timestamp-micros"): _instant(_LOCAL, 1),
    ("long", "local-timestamp-nanos"): _nanos(""),
}
_SIZES = {"uuid": 16, "duration": 12}
"""Of the fixed types that may be one."""


def _variable_decimal(value: Any, _schema: object) -> Any:
    return connect_types.decimal(value["value"], value["scale"]) or value


def _connect_decimal(content: bytes, schema: Mapping[str, Any]) -> str | bytes:
    return connect_types.decimal(content, schema["scale"]) or content


def _bits(content: bytes, schema: Mapping[str, Any]) -> str | bytes:
    return connect_types.bits(content, schema["length"]) or content


def _embedded(text: str, _schema: object) -> msgspec.Raw | str:
    content = connect_types.embedded(text)
    return text if content is None else msgspec.Raw(content)


def _shown(render: Callable[[int], Any]) -> Callable[[int, object], Any]:
    return lambda number, _schema: render(number)


# Of a schema that Kafka Connect's converter has made, `connect.name` says what Avro has no logical type for.
CONNECT_TYPES: Mapping[tuple[str, str], Callable[[Any, Any], Any]] = {
    **{(kind, n): _shown(f) for n, f in connect_types.NUMBERS.items() for kind in ("int", "long")},
    ("record", connect_types.VARIABLE_DECIMAL): _variable_decimal,
    ("bytes", connect_types.DECIMAL): _connect_decimal,
    ("bytes", connect_types.BITS): _bits,
    ("string", connect_types.JSON): _embedded,
}


def logical_name(name: str) -> str:
    return f"sluice-{name}"


def _logical_reader(value: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def read(plain: Any, schema: Any, _readers_schema: Any = None) -> Any:
        return value(plain, schema)

    return read


for (_kind, _name), _value in {**LOGICAL_TYPES, **CONNECT_TYPES}.items():
    LOGICAL_READERS[f"{_kind}-{logical_name(_name)}"] = _logical_reader(_value)


# Cleans an Avro schema, so that fastavro sees what the specification gives a meaning, and nothing else.
#
# fastavro takes properties of its own from a schema (`__fastavro_parsed`, `__named_schemas`), and raises
# while it reads a message what a wrong `size` or a decimal without `precision` makes it raise. Source:
# https://avro.apache.org/docs/1.12.0/specification/

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MOST_IN_NAME = 512
"""Characters of a name, and of a namespace: all names within inherit it."""
MOST_SCALE = 1_000
_LARGEST_SIZE = (1 << 31) - 1
_SHOWN = 80


def cleaned(schema: Any) -> Any:
    """Returns a schema as fastavro may see it. Raises BadSchema, RecursionError for one nested too deeply."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, list):
        return [*map(cleaned, schema)]
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str):
        raise BadSchema(f"expected a type, not {shown(schema)}")
    if kind in PRIMITIVES:
        logical = _logical(kind, schema)
        return {"type": kind, **logical} if logical else kind
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: cleaned(schema.get(inner))}
    if kind in ("record", "error"):
        fields = [*map(_field, _list(schema, "fields"))]
        return {"type": kind, **_names(schema), "fields": fields, **_connect(kind, schema)}
    if kind == "enum":
        default = {"default": _text(schema, "default")} if "default" in schema else {}
        return {"type": kind, **_names(schema), "symbols": _texts(schema, "symbols"), **default}
    if kind == "fixed":
        return {"type": kind, **_names(schema), "size": _size(schema), **_logical(kind, schema)}
    return kind


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _field(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise BadSchema(f"expected a field, not {shown(part)}")
    clean = {"name": _text(part, "name"), "type": cleaned(part.get("type"))}
    if "aliases" in part:
        clean["aliases"] = _texts(part, "aliases")
    if "default" in part:
        clean["default"] = part["default"]
    return clean


def _names(schema: Mapping[str, Any]) -> dict[str, Any]:
    clean: dict[str, Any] = {"name": _text(schema, "name")}
    if schema.get("namespace") is not None:
        clean["namespace"] = _text(schema, "namespace")
    if "aliases" in schema:
        clean["aliases"] = _texts(schema, "aliases")
    if any(len(name) > MOST_IN_NAME for name in (clean["name"], clean.get("namespace", ""))):
        raise BadSchema(f"a name has more than {MOST_IN_NAME} characters: {shown(clean['name'])}")
    return clean


def _logical(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties of a logical type. One that is unknown or invalid has no meaning, and its values
    are those of its `kind`."""
    name = schema.get("logicalType")
    if not isinstance(name, str) or (kind, name) not in LOGICAL_TYPES:
        return _connect(kind, schema)
    if kind == "fixed" and _SIZES.get(name, _size(schema)) != _size(schema):
        return {}
    clean: dict[str, Any] = {"logicalType": logical_name(name)}
    if name != "decimal":
        return clean
    precision: Any = schema.get("precision")
    scale: Any = schema.get("scale", 0)
    if not _is_whole(precision) or not _is_whole(scale) or not 0 <= scale <= precision or precision == 0:
        return _connect(kind, schema)
    if kind == "fixed" and precision > math.floor(math.log10(2) * (8 * _size(schema) - 1)):
        return {}
    if scale > MOST_SCALE:
        raise BadSchema(f"a decimal has a scale of {shown(scale)}: expected at most {MOST_SCALE:,}")
    return {**clean, "scale": scale}


_PARAMETERS = {
    connect_types.BITS: ("length", MOST_DECIMAL_BYTES * 8),
    connect_types.DECIMAL: ("scale", connect_types.MOST_DIGITS),
}
"""What a type of Kafka Connect needs beside its name, and at most."""


def _connect(kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties of a type of Kafka Connect or Debezium."""
    name = schema.get("connect.name")
    if not isinstance(name, str) or (kind, name) not in CONNECT_TYPES:
        return {}
    if kind == "record" and {"scale", "value"} != {part.get("name") for part in schema["fields"]}:
        return {}
    clean: dict[str, Any] = {"logicalType": logical_name(name)}
    if name not in _PARAMETERS:
        return clean
    parameter, most = _PARAMETERS[name]
    size = connect_types.parameter(schema.get("connect.parameters"), parameter)
    return {} if size is None or size > most else {**clean, parameter: size}


def _size(schema: Mapping[str, Any]) -> int:
    size: Any = schema.get("size")
    if not _is_whole(size) or not 0 <= size <= _LARGEST_SIZE:
        raise BadSchema(f"the size of a fixed type is {shown(size)}: expected a whole number of bytes")
    return int(size)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    if not isinstance(value, list):
        raise BadSchema(f"expected a list as {name}, not {shown(value)}")
    return value


def _texts(schema: Mapping[str, Any], name: str) -> list[str]:
    values = _list(schema, name)
    if not all(isinstance(value, str) for value in values):
        raise BadSchema(f"expected texts as {name}, not {shown(values)}")
    return values


def _text(schema: Mapping[str, Any], name: str) -> str:
    value = schema.get(name)
    if not isinstance(value, str):
        raise BadSchema(f"expected a text as {name}, not {shown(value)}")
    return value


NOT_AVRO = "not Avro of its schema"
NOT_THE_READERS = "does not fit the reader's schema"

# Of a schema that fastavro has to read at once: it parses any other than a record again for each message.
# The bytes of a record are those of its fields.
_NAME, _FIELD = "?", "message"
_MOST_SAID = 300
_FLOATS = re.compile("float|double|nan|inf")  # Python's json takes NaN and Infinity as defaults
# What bytes that are no datum of the schema do to the walk, and to the encoder of JSON.
_DAMAGED = (ValueError, IndexError, ArithmeticError)


@dataclass(frozen=True)
class Schema:
    """`walk` checks the indexes of a message; None where the schema has none. `sizes` say what a message may
    become, and `short` how long one may be that cannot become too large. `reader`: whose fields are wanted.
    `floats`: whether a message may have one, of its schema or out of a default of the reader's.

    Where types nest without end, or in many levels, fastavro's compiled reader follows a deep message until
    the process dies of it (5 KB suffice); its Python twin raises RecursionError.
    """

    parsed: Any
    named: Mapping[str, Any]
    sizes: SchemaSizes
    bound: Size
    short: int
    walk: Walk | None = None
    reader: Any = None
    floats: bool = True

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The full names of what a message may be: of the branches, where it is a union."""
        content = _content(self.parsed)
        return tuple(map(_name_of, content if isinstance(content, list) else [content]))

    def name_of(self, message: bytes) -> str:
        """Returns the full name of the type by which a message was written that can be read."""
        names = self._names
        return names[0 if len(names) == 1 else leading_number(message)]

    @cached_property
    def counted(self) -> tuple[Walk, Room]:
        """The walk for longer messages, and the room that it takes from."""
        room = Room(self.bound)
        return counted_walk_of(_content(self.parsed), self.named, self.sizes, room), room


def schema_of(
    text: str, references: Sequence[str] = (), reader: Schema | None = None, bound: Size = BOUND
) -> Schema:
    """Returns the schema in a text; `references` are those that it names, each after what it names itself.

    Raises BadSchema.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(cleaned(json.loads(reference)), named_schemas=named)
        field = {"name": _FIELD, "type": cleaned(json.loads(text))}
        message = {"type": "record", "name": _NAME, "fields": [field]}
        parsed: Any = fastavro.parse_schema(message, named_schemas=named)
        added = None if reader is None else ReaderSizes.of(reader.named)
        sizes = SchemaSizes.of(_content(parsed), named, added)
        short = bytes_within(bound, sizes.whole, sizes.byte)
        wanted = None if reader is None or reader.parsed == parsed else _reader(reader.parsed)
        floats = any(_FLOATS.search(repr(one)) for one in (parsed, named, wanted))
        walk = walk_of(_content(parsed), named)
        return Schema(parsed, named, sizes, bound, short, walk, wanted, floats)
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None
    except BadSchema:
        raise
    except (SchemaParseException, UnknownType, ValueError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}"[:_MOST_SAID]) from error


def decoded(message: bytes, schema: Schema) -> bytes:
    """Returns the datum as JSON: as it was written, or with the fields and defaults of the reader's schema.

    Raises Rejected, also when bytes are left over: damaged Avro often decodes to something.
    """
    walk = schema.walk
    try:
        if len(message) > schema.short:
            walk, room = schema.counted
            room.refill()
            room.take(schema.sizes.whole)
        if walk is not None and walk(message, 0) != len(message):
            raise Rejected(NOT_AVRO)
        return json_text(_read(message, schema), schema.floats)
    except RecursionError:
        raise Rejected(reject_reasons.NESTED_TOO_DEEP) from None
    except _DAMAGED:
        raise Rejected(NOT_AVRO) from None


def _read(message: bytes, schema: Schema) -> Any:
    """Raises Rejected, RecursionError."""
    source = io.BytesIO(message)
    read = (_read_py if schema.sizes.deep else fastavro).schemaless_reader
    try:
        datum: Any = read(source, schema.parsed, schema.reader)
    except (Rejected, RecursionError, MemoryError):
        raise
    except SchemaResolutionError:
        raise Rejected(NOT_THE_READERS) from None
    except Exception:  # any: what a library makes of any bytes is one record's verdict, not the hour's
        raise Rejected(NOT_AVRO) from None
    if source.tell() != len(message):
        raise Rejected(NOT_AVRO)
    return datum[_FIELD]


def _name_of(schema: Any) -> str:
    return str(schema if isinstance(schema, str) else schema.get("name", schema["type"]))


def _content(parsed: Any) -> Any:
    return parsed["fields"][0]["type"]


def _reader(parsed: Any) -> Any:
    """Returns the reader's schema with one property more: for each message fastavro compares it with the
    writer's, which are then different at once."""
    return {**parsed, "reader": True}
