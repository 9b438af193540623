"""Avro's binary encoding, by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from sluice.formats.errors import BadSchema
from sluice.formats.json_text import json_text
from sluice.landing import reasons
from sluice.landing.reasons import Unparsed

# What bytes that are no datum of the schema make fastavro raise, or what their values do: instants beyond the
# year 9999. tests/unit/test_formats_avro.py feeds it with damaged messages.
_DAMAGED = (EOFError, ValueError, IndexError, ArithmeticError)


@dataclass(frozen=True)
class Schema:
    """`recursive`: a type holds itself. fastavro's compiled reader then follows a deep message until the
    process dies of it (5 KB suffice); its Python twin raises RecursionError."""

    parsed: Any
    recursive: bool


def schema_of(text: str, references: Sequence[str] = ()) -> Schema:
    """The schema in a text; `references` are those that it names, each after what it names itself.

    Raises BadSchema.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from error
    return _checked(parsed, named)


def decoded(message: bytes, writer: Schema, reader: Schema | None = None) -> bytes:
    """The datum as JSON: as `writer` wrote it, or with the fields and defaults of `reader`.

    Raises Unparsed, also when bytes are left over: damaged Avro often decodes to something.
    """
    source = io.BytesIO(message)
    read = (_read_py if writer.recursive else fastavro).schemaless_reader
    try:
        text = json_text(read(source, writer.parsed, None if reader is None else reader.parsed))
    except SchemaResolutionError:
        raise Unparsed(reasons.NOT_THE_READERS) from None
    except RecursionError:
        raise Unparsed(reasons.NESTED_TOO_DEEP) from None
    except _DAMAGED:
        raise Unparsed(reasons.NOT_AVRO) from None
    if source.tell() != len(message):
        raise Unparsed(reasons.NOT_AVRO)
    return text


def _nodes(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...] = ()) -> Iterator[tuple[Any, bool]]:
    """Every schema within a parsed one, and whether it is a type that holds itself."""
    if isinstance(schema, str) and schema in named:
        if schema in inside:
            yield schema, True
            return
        schema = named[schema]
    yield schema, False
    if isinstance(schema, list):
        parts = schema
    elif isinstance(schema, str):
        return
    elif schema["type"] in ("record", "error"):
        parts, inside = [part["type"] for part in schema["fields"]], (*inside, schema["name"])
    else:
        parts = [schema[place] for place in ("items", "values") if place in schema]
    for part in parts:
        yield from _nodes(part, named, inside)


def _weightless(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...] = ()) -> bool:
    """Whether a value takes no byte: a message of ten could hold a billion of them."""
    if isinstance(schema, str):
        known = schema in named and schema not in inside
        return schema == "null" or (known and _weightless(named[schema], named, inside))
    if isinstance(schema, list):
        return False
    if schema["type"] in ("record", "error"):
        within = (*inside, schema["name"])
        return all(_weightless(part["type"], named, within) for part in schema["fields"])
    return schema["type"] == "null" or (schema["type"] == "fixed" and schema["size"] == 0)


def _checked(parsed: Any, named: Mapping[str, Any]) -> Schema:
    nodes = list(_nodes(parsed, named))
    recursive = any(again for _, again in nodes)
    for node, _ in nodes:
        if isinstance(node, dict) and _weightless(node.get("items", "bytes"), named):
            raise BadSchema("it has an array whose items take no bytes, and which could be of any length")
    return Schema(parsed, recursive)
