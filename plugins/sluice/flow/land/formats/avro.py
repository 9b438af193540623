"""Avro's binary encoding, by fastavro."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, Room, Size, bytes_within
from sluice.flow.land.formats.avro_indexes import Walk, counted_walk_of, walk_of
from sluice.flow.land.formats.avro_schema import cleaned
from sluice.flow.land.formats.avro_sizes import ReaderSizes, SchemaSizes
from sluice.flow.land.formats.json_text import json_text
from sluice.flow.land.reject_reasons import BadSchema, Rejected

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


def _content(parsed: Any) -> Any:
    return parsed["fields"][0]["type"]


def _reader(parsed: Any) -> Any:
    """Returns the reader's schema with one property more: for each message fastavro compares it with the
    writer's, which are then different at once."""
    return {**parsed, "reader": True}
