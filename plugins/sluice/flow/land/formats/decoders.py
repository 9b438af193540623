"""How a task decodes its messages, by format: by a schema file, or by the schema that each message names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from sluice.config.event import AVRO, PROTOBUF
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import Size
from sluice.flow.land.formats import avro, proto_source, protobuf
from sluice.flow.land.formats.framing import SchemaId, framed, framed_with_path
from sluice.flow.land.formats.protobuf import MessageDecoder, SchemaSizes
from sluice.flow.land.formats.registry import SchemaRegistry, StoredSchema
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.flow.land.task.reports import SchemasAsked
from sluice.named_file import MOST_OF_SCHEMA, read_named
from sluice.safe_text import line

if TYPE_CHECKING:
    from sluice.flow.land.task.decode import Decoding


MOST_WITHOUT_SCHEMA = 1_000
"""Schema ids that a task asks for in vain: any producer may write any id, and each is a request."""

MOST_KEPT = 16 << 20
"""Bytes of the schemas that a task keeps; parsed they take some ten times as much."""

AGAIN_AT_ONCE, AGAIN_BY_MESSAGE = 64 << 20, 20_000
"""Bytes of schemas, no longer kept, that a task asks for again; each message adds some. Parsing them takes
about a second a megabyte, whatever the message's own size."""


class DecodedEvent(NamedTuple):
    """`name`: the full name of the type by which the message was written."""

    text: bytes
    name: str


Decode = Callable[[bytes, bytes | None], DecodedEvent]
"""Makes a message, and the header that may name its schema, into the event's JSON. Raises Rejected."""


@dataclass(frozen=True)
class Format:
    """`prepare` makes, on the driver, of a schema's file what travels to the tasks; `decoder` decodes there
    what becomes at most a bound. Both raise BadSchema."""

    decoder: Callable[[Decoding, Size, SchemasAsked], Decode]
    prepare: Callable[[Path], bytes]


class _ByNumber:
    """Keeps the schema of each id, or the reason why it has none. The registry is asked for an id once, and
    for no further id after MOST_WITHOUT_SCHEMA that have none; of schemas the latest are kept, and the others
    asked for again when a message names them, as long as there is room for it."""

    kind: str

    def __init__(self, registry: SchemaRegistry, bound: Size, asked: SchemasAsked) -> None:
        self._registry, self._bound, self._told = registry, bound, asked
        self._reasons: dict[SchemaId, str] = {}
        self._schemas: dict[SchemaId, tuple[Any, int]] = {}
        self._bytes = 0
        self._forgotten: dict[SchemaId, int] = {}
        self._again = AGAIN_AT_ONCE

    def _schema(self, number: SchemaId) -> Any:
        """Raises Rejected, and what the registry raises."""
        self._again = min(self._again + AGAIN_BY_MESSAGE, AGAIN_AT_ONCE)
        if number in self._schemas:
            return self._schemas[number][0]
        if self._forgotten.get(number, 0) > self._again:
            raise Rejected(reject_reasons.TOO_MANY_SCHEMAS)
        self._again -= self._forgotten.pop(number, 0)
        if number not in self._reasons:
            if len(self._reasons) >= MOST_WITHOUT_SCHEMA:
                raise Rejected(reject_reasons.TOO_MANY_UNKNOWN_SCHEMAS)
            try:
                return self._asked(number)
            except Rejected as verdict:
                self._refuse(number, verdict.reason)
        raise Rejected(self._reasons[number])

    def _asked(self, number: SchemaId) -> Any:
        """Raises Rejected with the verdict on the id's messages."""
        try:
            stored = self._registry.schema(number)
            if stored is None:
                raise Rejected(reject_reasons.UNKNOWN_SCHEMA)
            if stored.kind != self.kind:
                raise Rejected(reject_reasons.OTHER_SCHEMA)
            schema = self._parsed(stored)
        except (BadSchema, MemoryError) as error:
            self._told.without[number] = line(str(error)) or type(error).__name__
            raise Rejected(reject_reasons.UNREADABLE_SCHEMA) from None
        size = len(stored.text) + sum(map(len, stored.references))
        self._schemas[number], self._bytes = (schema, size), self._bytes + size
        self._told.sizes[number] = size
        while self._bytes > MOST_KEPT and len(self._schemas) > 1:
            oldest = next(iter(self._schemas))
            self._forgotten[oldest] = self._forget(oldest)
        return schema

    def _refuse(self, number: SchemaId, reason: str) -> None:
        self._reasons[number] = reason
        self._told.without.setdefault(number, "")

    def _forget(self, number: SchemaId) -> int:
        """Returns the bytes of the schema's texts."""
        size = self._schemas.pop(number)[1]
        self._bytes -= size
        return size

    def _parsed(self, stored: StoredSchema) -> Any:
        raise NotImplementedError


class AvroByNumber(_ByNumber):
    """With a `reader` its fields, aliases and defaults, whatever the writer's schema."""

    kind = "AVRO"

    def __init__(
        self, registry: SchemaRegistry, bound: Size, reader: str | None, asked: SchemasAsked
    ) -> None:
        """Raises BadSchema for the reader's schema."""
        super().__init__(registry, bound, asked)
        self._reader = None if reader is None else avro.schema_of(reader)

    def __call__(self, message: bytes, header: bytes | None = None) -> DecodedEvent:
        number, content = framed(message, header)
        schema = self._schema(number)
        return DecodedEvent(avro.decoded(content, schema), schema.name_of(content))

    def _parsed(self, stored: StoredSchema) -> avro.Schema:
        return avro.schema_of(stored.text, stored.references, self._reader, self._bound)


class ProtobufByNumber(_ByNumber):
    """With descriptors and the name of a message only that message is taken, and read as they say."""

    kind = "PROTOBUF"

    def __init__(
        self,
        registry: SchemaRegistry,
        bound: Size,
        descriptors: bytes | None,
        name: str | None,
        asked: SchemasAsked,
    ) -> None:
        """Raises BadSchema for the descriptors."""
        super().__init__(registry, bound, asked)
        self._reader = None
        if descriptors is not None and name is not None:
            self._reader = MessageDecoder(protobuf.message_type(descriptors, name), bound)

    def __call__(self, message: bytes, header: bytes | None = None) -> DecodedEvent:
        number, path, content = framed_with_path(message, header)
        stored = self._schema(number)
        try:
            decoder = self._decoder(stored, path)
        except BadSchema as error:
            # Of all its messages, also those of other types: they share what is known of their sizes.
            self._forget(number)
            self._told.without[number] = line(str(error))
            self._refuse(number, reject_reasons.UNREADABLE_SCHEMA)
            raise Rejected(reject_reasons.UNREADABLE_SCHEMA) from None
        return DecodedEvent(decoder(content), decoder.name)

    def _decoder(self, stored: _StoredMessages, path: tuple[int, ...]) -> MessageDecoder:
        """Raises Rejected, and BadSchema for a message that the schema has and nobody can read."""
        if path not in stored.decoders:
            try:
                written = stored.file.message_at(path)
            except BadSchema:
                raise Rejected(reject_reasons.OTHER_SCHEMA) from None
            if self._reader is None:
                stored.decoders[path] = MessageDecoder(written, self._bound, stored.sizes)
            elif written.DESCRIPTOR.full_name == self._reader.kind.DESCRIPTOR.full_name:
                stored.decoders[path] = self._reader
            else:
                raise Rejected(reject_reasons.OTHER_SCHEMA)
        return stored.decoders[path]

    def _parsed(self, stored: StoredSchema) -> _StoredMessages:
        messages = protobuf.MessageFile(_descriptors(stored))
        messages.message_at((0,))
        return _StoredMessages(messages)


def _descriptors(stored: StoredSchema) -> Sequence[FileDescriptorProto]:
    """Returns the files of a schema, itself last: they are descriptors, or texts where the registry has no
    others. Raises BadSchema, WrongUse."""
    try:
        texts = [*stored.references, stored.text]
        files = [FileDescriptorProto.FromString(base64.b64decode(text, validate=True)) for text in texts]
    except (ValueError, DecodeError):  # binascii.Error, and that of a text with other letters
        references = dict(zip(stored.names, stored.references, strict=True))
        return proto_source.compiled_texts(stored.text, references)
    for name, file in zip(stored.names, files, strict=False):
        file.name = name
    names = {file.name for file in files}
    nowhere = sorted({name for file in files for name in file.dependency} - names)
    return [*(one for one in proto_source.compiled_built_ins(nowhere) if one.name not in names), *files]


@dataclass
class _StoredMessages:
    """A schema of the registry, and the decoders of those of its messages that have come, by path; they share
    the sizes of their types."""

    file: protobuf.MessageFile
    sizes: SchemaSizes = field(default_factory=SchemaSizes)
    decoders: dict[tuple[int, ...], MessageDecoder] = field(default_factory=dict)


def _avro(decoding: Decoding, bound: Size, asked: SchemasAsked) -> Decode:
    text = None if decoding.schema is None else decoding.schema.decode()
    if decoding.registry is not None:
        return AvroByNumber(SchemaRegistry(decoding.registry, serialized=False), bound, text, asked)
    schema = avro.schema_of(text or "", bound=bound)
    return lambda message, _: DecodedEvent(avro.decoded(message, schema), schema.name_of(message))


def _protobuf(decoding: Decoding, bound: Size, asked: SchemasAsked) -> Decode:
    if decoding.registry is not None:
        registry = SchemaRegistry(decoding.registry, serialized=True)
        return ProtobufByNumber(registry, bound, decoding.schema, decoding.message, asked)
    kind = protobuf.message_type(decoding.schema or b"", decoding.message or "")
    decoder = MessageDecoder(kind, bound)
    return lambda message, _: DecodedEvent(decoder(message), decoder.name)


def _schema(file: Path) -> bytes:
    return read_named(file, MOST_OF_SCHEMA)


FORMATS: Mapping[str, Format] = {
    AVRO: Format(_avro, _schema),
    PROTOBUF: Format(_protobuf, proto_source.compiled),
}
