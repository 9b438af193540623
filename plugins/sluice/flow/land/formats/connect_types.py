"""Values of Kafka Connect's and Debezium's own types, as the text that columns and event times read.

A schema names them: of a message in JSON the block beside its payload, of one in Avro the property
`connect.name`. Sources: https://debezium.io/documentation/reference/3.6/connectors/postgresql.html#postgresql-data-types
and org.apache.kafka.connect.data. What cannot be shown as its type stays the number or text that it is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

import msgspec

from sluice.flow.land.expansion import MOST_LEVELS, far_day, far_instant, too_deep

MOST_DIGITS = 100
"""Behind a decimal's point, or zeros before it: a byte may ask for so many. A column takes 76."""
MOST_DECIMAL_BYTES = 1_024
"""Of a decimal: making digits of bytes takes time that grows with their square."""

_UNIX_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_RAW = msgspec.json.Decoder(msgspec.Raw)


def day(number: int) -> str:
    try:
        return date.fromordinal(_UNIX_DAY + number).isoformat()
    except (ValueError, OverflowError):
        return far_day(number)


def clock(number: int, digits: int) -> str:
    """Returns `10:11:12.5` of so many 10^-digits seconds since midnight. MySQL has times below zero and above
    a day."""
    seconds, fraction = divmod(abs(number), 10**digits)
    hours, rest = divmod(seconds, 3_600)
    sign = "-" if number < 0 else ""
    return f"{sign}{hours:02}:{rest // 60:02}:{rest % 60:02}{_fraction(fraction, digits)}"


def instant(number: int, digits: int, zone: str = "") -> str:
    """Returns ISO 8601 of so many 10^-digits seconds since 1970."""
    seconds, fraction = divmod(number, 10**digits)
    try:
        return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}{_fraction(fraction, digits)}{zone}"
    except OverflowError:
        return f"{far_instant(seconds, 0)}{_fraction(fraction, digits)}{zone}"


def _fraction(fraction: int, digits: int) -> str:
    return f".{fraction:0{digits}}".rstrip("0") if fraction else ""


def decimal(unscaled: bytes, scale: int) -> str | None:
    """Returns all digits. None for more than MOST_DECIMAL_BYTES or MOST_DIGITS."""
    if len(unscaled) > MOST_DECIMAL_BYTES or abs(scale) > MOST_DIGITS:
        return None
    number = int.from_bytes(unscaled, "big", signed=True)
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).zfill(scale + 1)
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def bits(content: bytes, length: int) -> str | None:
    """Returns a database's bit string, its first bit first; Debezium writes the lowest byte first."""
    if not 0 < length <= 8 * len(content) or len(content) > MOST_DECIMAL_BYTES:
        return None
    return f"{int.from_bytes(content, 'little'):0{length}b}"


def embedded(text: str) -> bytes | None:
    """Returns JSON that stands in a text as a part of the event; None for what is no JSON."""
    content = text.encode()
    try:
        if too_deep(content, MOST_LEVELS // 2):
            return None
        _RAW.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    return content


NUMBERS: Mapping[str, Callable[[int], str]] = {
    "io.debezium.time.Date": day,
    "io.debezium.time.Time": partial(clock, digits=3),
    "io.debezium.time.MicroTime": partial(clock, digits=6),
    "io.debezium.time.NanoTime": partial(clock, digits=9),
    "io.debezium.time.Timestamp": partial(instant, digits=3),
    "io.debezium.time.MicroTimestamp": partial(instant, digits=6),
    "io.debezium.time.NanoTimestamp": partial(instant, digits=9),
    "org.apache.kafka.connect.data.Date": day,
    "org.apache.kafka.connect.data.Time": partial(clock, digits=3),
    "org.apache.kafka.connect.data.Timestamp": partial(instant, digits=3, zone="Z"),
}
"""Types whose values are whole numbers. Debezium's timestamps are of columns without a zone."""
DECIMAL, VARIABLE_DECIMAL = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"
BITS, JSON = "io.debezium.data.Bits", "io.debezium.data.Json"


# What a JSON schema block says of a value's text. A converter is made once for each schema; it is given the
# text of a value that is not null, and returns the text that stands in the event.
Convert = Callable[[bytes], bytes]

MOST_NESTED = 32
"""Levels of a schema that are looked into; values below stay as they are."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
NULL = b"null"


class _Variable(msgspec.Struct):
    scale: int
    value: str


_VARIABLE = msgspec.json.Decoder(_Variable)


def converter(schema: Any, levels: int = MOST_NESTED) -> Convert | None:
    """Returns None where all values of the schema stay as they are; so do those that are not of it."""
    if not isinstance(schema, dict) or not levels:
        return None
    name, kind = schema.get("name"), schema.get("type")
    if not isinstance(name, str):
        name = ""
    if name in NUMBERS:
        return _safe(partial(_number, NUMBERS[name]))
    if name == VARIABLE_DECIMAL:
        return _safe(_variable)
    if name == JSON:
        return _safe(_embedded)
    if name in (DECIMAL, BITS):
        size = parameter(schema.get("parameters"), "scale" if name == DECIMAL else "length")
        render = decimal if name == DECIMAL else bits
        return None if size is None else _safe(partial(_bytes, render, size))
    if kind == "struct":
        converters = field_converters(schema, levels)
        return _safe(partial(_object, converters)) if converters else None
    if kind == "array" and (inner := converter(schema.get("items"), levels - 1)):
        return _safe(partial(_array, inner))
    if kind == "map" and (inner := converter(schema.get("values"), levels - 1)):
        return _safe(partial(_map, inner))
    return None


def field_schema(schema: Any, name: str) -> Any:
    """Returns the schema of a struct's field; None where there is none."""
    return dict(_fields(schema)).get(name)


def field_converters(schema: Any, levels: int = MOST_NESTED) -> dict[str, Convert]:
    """Returns those of a struct's fields whose values do not stay as they are."""
    each = ((name, converter(one, levels - 1)) for name, one in _fields(schema))
    return {name: convert for name, convert in each if convert is not None}


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for one in fields if isinstance(fields, list) else ():
        if isinstance(one, dict) and isinstance(name := one.get("field"), str):
            yield name, one


def converted(members: Mapping[str, bytes], converters: Mapping[str, Convert]) -> dict[str, bytes]:
    """Returns the members of an object with the values that do not stay as they are."""
    shown = dict(members)
    for name, convert in converters.items():
        value = shown.get(name, NULL)
        if value != NULL:
            shown[name] = convert(value)
    return shown


def object_text(members: Mapping[str, bytes]) -> bytes:
    """Returns a JSON object of names and the texts of their values."""
    return b"{%b}" % b",".join([_name(name) + value for name, value in members.items()])


@lru_cache(10_000)
def _name(name: str) -> bytes:
    return msgspec.json.encode(name) + b":"


def parameter(parameters: Any, name: str) -> int | None:
    text = parameters.get(name) if isinstance(parameters, dict) else None
    try:
        return int(text) if isinstance(text, str | int) else None
    except ValueError:
        return None


def _safe(convert: Convert) -> Convert:
    """A value that is not of its schema stays as it is."""

    def shown(text: bytes) -> bytes:
        try:
            return convert(text)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return text

    return shown


def _number(render: Callable[[int], str], text: bytes) -> bytes:
    return b'"%b"' % render(int(text)).encode()


def _bytes(render: Callable[[bytes, int], str | None], size: int, text: bytes) -> bytes:
    shown = render(_content(_TEXT.decode(text)), size)
    return text if shown is None else b'"%b"' % shown.encode()


def _variable(text: bytes) -> bytes:
    value = _VARIABLE.decode(text)
    shown = decimal(_content(value.value), value.scale)
    return text if shown is None else b'"%b"' % shown.encode()


def _content(text: str) -> bytes:
    """Raises ValueError for what is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(text) from None


def _embedded(text: bytes) -> bytes:
    return embedded(_TEXT.decode(text)) or text


def _object(converters: Mapping[str, Convert], text: bytes) -> bytes:
    return object_text(converted(_members(text), converters))


def _array(inner: Convert, text: bytes) -> bytes:
    items = [bytes(item) for item in _ITEMS.decode(text)]
    return b"[%b]" % b",".join(item if item == NULL else inner(item) for item in items)


def _map(inner: Convert, text: bytes) -> bytes:
    members = _members(text)
    return object_text(converted(members, dict.fromkeys(members, inner)))


def _members(text: bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in _MEMBERS.decode(text).items()}
