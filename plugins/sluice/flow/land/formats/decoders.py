"""How a task decodes its messages, by format: by a schema file, or by the schema that each message names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from sluice.config.event import AVRO, PROTOBUF
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import Size
from sluice.flow.land.formats import avro, protobuf
from sluice.flow.land.formats.protobuf import MessageDecoder, SchemaSizes
from sluice.flow.land.formats.registry import SchemaRegistry, StoredSchema
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.flow.land.task.reports import SchemasAsked
from sluice.named_file import MOST_OF_SCHEMA, read_named

if TYPE_CHECKING:
    from sluice.flow.land.task.decode import Decoding


MOST_WITHOUT_SCHEMA = 1_000
"""Schema ids that a task asks for in vain: any producer may write any id, and each is a request."""

MOST_KEPT = 16 << 20
"""Bytes of the schemas that a task keeps; parsed they take some ten times as much."""

AGAIN_AT_ONCE, AGAIN_BY_MESSAGE = 64 << 20, 20_000
"""Bytes of schemas, no longer kept, that a task asks for again; each message adds some. Parsing them takes
about a second a megabyte, whatever the message's own size."""

Decode = Callable[[bytes], bytes]
"""Makes a message into the event's JSON. Raises Rejected."""


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
        self._reasons: dict[int, str] = {}
        self._schemas: dict[int, tuple[Any, int]] = {}
        self._bytes = 0
        self._forgotten: dict[int, int] = {}
        self._again = AGAIN_AT_ONCE

    def _schema(self, number: int) -> Any:
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

    def _asked(self, number: int) -> Any:
        """Raises Rejected with the verdict on the id's messages."""
        try:
            stored = self._registry.schema(number)
            if stored is None:
                raise Rejected(reject_reasons.UNKNOWN_SCHEMA)
            if stored.kind != self.kind:
                raise Rejected(reject_reasons.OTHER_SCHEMA)
            schema = self._parsed(stored)
        except (BadSchema, MemoryError):
            raise Rejected(reject_reasons.UNREADABLE_SCHEMA) from None
        size = len(stored.text) + sum(map(len, stored.references))
        self._schemas[number], self._bytes = (schema, size), self._bytes + size
        self._told.sizes[number] = size
        while self._bytes > MOST_KEPT and len(self._schemas) > 1:
            oldest = next(iter(self._schemas))
            self._forgotten[oldest] = self._forget(oldest)
        return schema

    def _refuse(self, number: int, reason: str) -> None:
        self._reasons[number] = reason
        self._told.without.add(number)

    def _forget(self, number: int) -> int:
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

    def __call__(self, message: bytes) -> bytes:
        number, content = framed(message)
        return avro.decoded(content, self._schema(number))

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

    def __call__(self, message: bytes) -> bytes:
        number, content = framed(message)
        path, content = indexed(content)
        stored = self._schema(number)
        try:
            decoder = self._decoder(stored, path)
        except BadSchema:
            # Of all its messages, also those of other types: they share what is known of their sizes.
            self._forget(number)
            self._refuse(number, reject_reasons.UNREADABLE_SCHEMA)
            raise Rejected(reject_reasons.UNREADABLE_SCHEMA) from None
        return decoder(content)

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
        try:
            texts = [*stored.references, stored.text]
            files = [FileDescriptorProto.FromString(base64.b64decode(text, validate=True)) for text in texts]
        except (ValueError, DecodeError) as error:  # binascii.Error, and that of a text with other letters
            raise BadSchema(str(error)) from error
        for name, file in zip(stored.names, files, strict=False):
            file.name = name
        messages = protobuf.MessageFile(files)
        messages.message_at((0,))
        return _StoredMessages(messages)


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
    return lambda message: avro.decoded(message, schema)


def _protobuf(decoding: Decoding, bound: Size, asked: SchemasAsked) -> Decode:
    if decoding.registry is not None:
        registry = SchemaRegistry(decoding.registry, serialized=True)
        return ProtobufByNumber(registry, bound, decoding.schema, decoding.message, asked)
    return MessageDecoder(protobuf.message_type(decoding.schema or b"", decoding.message or ""), bound)


def _schema(file: Path) -> bytes:
    return read_named(file, MOST_OF_SCHEMA)


FORMATS: Mapping[str, Format] = {
    AVRO: Format(_avro, _schema),
    PROTOBUF: Format(_protobuf, protobuf.compiled),
}


# Confluent's wire format: a zero byte, the schema's id in four bytes, and then the message.
#
# Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
_HEAD = 5
_VARINT_BYTES = 10
_LARGEST_INDEX = (1 << 31) - 1


def framed(message: bytes) -> tuple[int, bytes]:
    """Returns (schema id, what follows it). Raises Rejected."""
    if len(message) < _HEAD or message[0] != 0:
        raise Rejected(reject_reasons.NOT_FRAMED)
    return int.from_bytes(message[1:_HEAD], "big"), message[_HEAD:]


def indexed(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the path to a Protobuf message's type in its file, and its bytes. Raises Rejected.

    The path is a count and as many indexes, each a zigzag varint; a single zero is short for the first type.
    """
    count, at = _varint(content, 0)
    if count == 0:
        return (0,), content[at:]
    if not 0 < count <= len(content):
        raise Rejected(reject_reasons.NOT_FRAMED)
    path = []
    for _ in range(count):
        index, at = _varint(content, at)
        if not 0 <= index <= _LARGEST_INDEX:
            raise Rejected(reject_reasons.NOT_FRAMED)
        path.append(index)
    return tuple(path), content[at:]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift, byte in enumerate(content[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise Rejected(reject_reasons.NOT_FRAMED)
