"""What decodes the messages of a pipeline: made on the driver, where the schema files are; it travels to the
workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.clients.connections import find as connections
from sluice.config.event import Event
from sluice.errors import SchemaRefused
from sluice.flow.land.expansion import BOUND, Size
from sluice.flow.land.task.reports import SchemasAsked
from sluice.flow.land.task.unpack import Arrays, Decoded, SingleEvents, Unpacker

if TYPE_CHECKING:
    from sluice.flow.land.formats.decoders import Decode
    from sluice.flow.land.formats.registry import Address


@dataclass(frozen=True)
class Decoding:
    """`schema`: an Avro schema's text, or the descriptors of a .proto file, of which `message` is meant."""

    kind: str
    schema: bytes | None = None
    message: str | None = None
    registry: Address | None = None
    file: str = ""


def decoding_of(event: Event, schema: bytes | None = None) -> Decoding | None:
    """Returns None for JSON. `schema` is the prepared content of the schema file; without it the file is
    read. Raises SchemaRefused for a file that cannot be used, WrongUse for a connection."""
    form, address = event.format, None
    if not form.decoded:
        return None
    if event.registry is not None:
        from sluice.flow.land.formats.registry import address_of

        address = address_of(connections.find(event.registry.connection))
    content = schema_of(event) if schema is None else schema
    decoding = Decoding(form.kind, content, form.message, address, str(form.schema_file or ""))
    _decode(decoding)  # a schema that cannot be used is refused before anything is read
    return decoding


def schema_of(event: Event) -> bytes | None:
    """Returns the content of the schema file, where there is one. Raises SchemaRefused."""
    form = event.format
    return None if form.schema_file is None else _content(form.kind, form.schema_file)


def opener(
    event: Event, decoding: Decoding | None, bound: Size = BOUND, asked: SchemasAsked | None = None
) -> Unpacker:
    """Returns what makes events of records, in a task. `bound`: what one may become. `asked` is told of the
    schemas."""
    if decoding is not None:
        return Decoded(_decode(decoding, bound, asked), bound)
    return Arrays(bound) if event.arrays else SingleEvents()


def _content(kind: str, file: Path) -> bytes:
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[kind].prepare(file)
    except OSError as error:
        raise SchemaRefused(error.filename or str(file), error.strerror or str(error)) from error
    except BadSchema as error:
        raise SchemaRefused(str(file), str(error)) from error


def _decode(decoding: Decoding, bound: Size = BOUND, asked: SchemasAsked | None = None) -> Decode:
    # The clients take a worker half a second to load: only where messages have to be decoded.
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[decoding.kind].decoder(decoding, bound, asked or SchemasAsked())
    except (BadSchema, UnicodeDecodeError) as error:
        raise SchemaRefused(decoding.file, str(error)) from error
