"""Avro's binary encoding, by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, Room, Size, bytes_within
from sluice.flow.land.formats.avro_indexes import Walk, counted_walk_of, walk_of
from sluice.flow.land.formats.avro_sizes import ReaderSizes, SchemaSizes
from sluice.flow.land.formats.json_text import json_text
from sluice.flow.land.reject_reasons import BadSchema, Unparsed

NOT_AVRO = "not Avro of its schema"
NOT_THE_READERS = "does not fit the reader's schema"

# What bytes that are no datum of the schema make fastavro raise, or what their values do: instants beyond the
# year 9999. tests/unit/flow/land/test_formats_avro.py feeds it with damaged messages.
_DAMAGED = (EOFError, ValueError, IndexError, ArithmeticError)


@dataclass(frozen=True)
class Schema:
    """`walk` checks the indexes of a message; None where the schema has none. `sizes` say what a message may
    become, and `short` how long one may be that cannot become too large. `reader`: whose fields are wanted.

    Where a type holds itself, fastavro's compiled reader follows a deep message until the process dies of it
    (5 KB suffice); its Python twin raises RecursionError.
    """

    parsed: Any
    named: Mapping[str, Any]
    sizes: SchemaSizes
    bound: Size
    short: int
    walk: Walk | None = None
    reader: Any = None


def schema_of(
    text: str, references: Sequence[str] = (), reader: Schema | None = None, bound: Size = BOUND
) -> Schema:
    """Returns the schema in a text; `references` are those that it names, each after what it names itself.

    Raises BadSchema.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(text), named_schemas=named)
        sizes = SchemaSizes.of(parsed, named, None if reader is None else ReaderSizes.of(reader.named))
        short = bytes_within(bound, sizes.whole, sizes.byte)
        wanted = None if reader is None else reader.parsed
        return Schema(parsed, named, sizes, bound, short, walk_of(parsed, named), wanted)
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None
    except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadSchema(f"{type(error).__name__}: {error}") from error


def decoded(message: bytes, schema: Schema) -> bytes:
    """Returns the datum as JSON: as it was written, or with the fields and defaults of the reader's schema.

    Raises Unparsed, also when bytes are left over: damaged Avro often decodes to something.
    """
    source, walk = io.BytesIO(message), schema.walk
    read = (_read_py if schema.sizes.recursive else fastavro).schemaless_reader
    try:
        if len(message) > schema.short:
            walk = counted_walk_of(schema.parsed, schema.named, schema.sizes, Room(schema.bound))
        if walk is not None and walk(message, 0) != len(message):
            raise Unparsed(NOT_AVRO)
        text = json_text(read(source, schema.parsed, schema.reader))
    except SchemaResolutionError:
        raise Unparsed(NOT_THE_READERS) from None
    except RecursionError:
        raise Unparsed(reject_reasons.NESTED_TOO_DEEP) from None
    except _DAMAGED:
        raise Unparsed(NOT_AVRO) from None
    if source.tell() != len(message):
        raise Unparsed(NOT_AVRO)
    return text
