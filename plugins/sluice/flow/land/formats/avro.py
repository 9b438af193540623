"""Avro's binary encoding, by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from sluice.flow.land import reject_reasons
from sluice.flow.land.formats.avro_indexes import Walk, walk_of
from sluice.flow.land.formats.json_text import json_text
from sluice.flow.land.reject_reasons import BadSchema, Unparsed

NOT_AVRO = "not Avro of its schema"
NOT_THE_READERS = "does not fit the reader's schema"

# What bytes that are no datum of the schema make fastavro raise, or what their values do: instants beyond the
# year 9999. tests/unit/flow/land/test_formats_avro.py feeds it with damaged messages.
_DAMAGED = (EOFError, ValueError, IndexError, ArithmeticError)

# A few shared types, each twice in the next, make an empty message of a billion values.
MOST_VALUES = 100_000


@dataclass(frozen=True)
class Schema:
    """`recursive`: a type holds itself. fastavro's compiled reader then follows a deep message until the
    process dies of it (5 KB suffice); its Python twin raises RecursionError. `walk` checks the indexes of a
    message; None where the schema has none."""

    parsed: Any
    recursive: bool
    walk: Walk | None = None


def schema_of(text: str, references: Sequence[str] = ()) -> Schema:
    """Returns the schema in a text; `references` are those that it names, each after what it names itself.

    Raises BadSchema.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
        return _checked(parsed, named)
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from error


def decoded(message: bytes, writer: Schema, reader: Schema | None = None) -> bytes:
    """Returns the datum as JSON: as `writer` wrote it, or with the fields and defaults of `reader`.

    Raises Unparsed, also when bytes are left over: damaged Avro often decodes to something.
    """
    source = io.BytesIO(message)
    read = (_read_py if writer.recursive else fastavro).schemaless_reader
    try:
        if writer.walk is not None and writer.walk(message, 0) != len(message):
            raise Unparsed(NOT_AVRO)
        text = json_text(read(source, writer.parsed, None if reader is None else reader.parsed))
    except SchemaResolutionError:
        raise Unparsed(NOT_THE_READERS) from None
    except RecursionError:
        raise Unparsed(reject_reasons.NESTED_TOO_DEEP) from None
    except _DAMAGED:
        raise Unparsed(NOT_AVRO) from None
    if source.tell() != len(message):
        raise Unparsed(NOT_AVRO)
    return text


@dataclass(frozen=True)
class _Size:
    """Of each datum of a schema: whether it takes no byte, and how many values it has at least."""

    weightless: bool
    values: int


@dataclass
class _SchemaWalk:
    """Walks a schema and all within it, each named type once; `recursive`: one holds itself."""

    named: Mapping[str, Any]
    sizes: dict[str, _Size | None] = field(default_factory=dict)
    recursive: bool = False

    def size(self, schema: Any) -> _Size:
        if isinstance(schema, str):
            return self._named(schema) if schema in self.named else _Size(schema == "null", 1)
        if isinstance(schema, list):
            for part in schema:
                self.size(part)
            return _Size(False, 1)
        if schema["type"] in ("record", "error"):
            return self._named(schema["name"], schema)
        for key in ("items", "values"):
            if key in schema and self.size(schema[key]).weightless and key == "items":
                raise BadSchema("it has an array whose items take no bytes, and which could be of any length")
        return _Size(schema["type"] == "null" or (schema["type"] == "fixed" and schema["size"] == 0), 1)

    def _named(self, name: str, schema: Any = None) -> _Size:
        if name not in self.sizes:
            self.sizes[name] = None
            self.sizes[name] = self._sized(self.named[name] if schema is None else schema)
        size = self.sizes[name]
        if size is None:
            self.recursive = True
            return _Size(False, 1)
        return size

    def _sized(self, schema: Any) -> _Size:
        if schema["type"] not in ("record", "error"):
            return self.size(schema)
        parts = [self.size(part["type"]) for part in schema["fields"]]
        return _Size(all(part.weightless for part in parts), 1 + sum(part.values for part in parts))


def _checked(parsed: Any, named: Mapping[str, Any]) -> Schema:
    walk = _SchemaWalk(named)
    values = walk.size(parsed).values
    if values > MOST_VALUES:
        raise BadSchema(f"each of its messages has {values:,} values: expected at most {MOST_VALUES:,}")
    return Schema(parsed, walk.recursive, walk_of(parsed, named))
