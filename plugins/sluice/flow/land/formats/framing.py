"""What precedes a message: the id of its schema, or its length where a value holds several.

The id of a schema in a registry stands in front of the bytes, or in a record header:

    00 and an id of 4 bytes      Confluent's serializers; an id of 0 is none
    00 and an id of 8 bytes      Apicurio's; the first four of them are 0
    01 and a GUID of 16 bytes    Confluent's, in the header HEADER: the message has nothing in front then

With Protobuf the path to the message's type follows the id, where that is. Sources:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html, SchemaId in
confluent_kafka/schema_registry/common/serde.py, and Legacy8ByteIdHandler of Apicurio's serializers.
"""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Rejected

HEADER = "__value_schema_id"

SchemaId: TypeAlias = int | str
"""An id, or a GUID as text."""

_BY_ID, _BY_GUID = 0, 1
_SHORT, _LONG, _GUID = 5, 9, 17  # bytes, with the first
_VARINT_BYTES = 10
_LARGEST_INDEX = (1 << 31) - 1


def framed(message: bytes, header: bytes | None = None) -> tuple[SchemaId, bytes]:
    """Returns (schema id, the message without it). Raises Rejected."""
    number, rest = _identified(message if header is None else header)
    return number, rest if header is None else message


def framed_with_path(message: bytes, header: bytes | None = None) -> tuple[SchemaId, tuple[int, ...], bytes]:
    """Returns (schema id, the path to the Protobuf message's type, the message). Raises Rejected."""
    number, rest = _identified(message if header is None else header)
    path, content = indexed(rest)
    return number, path, content if header is None else message


def bare(message: bytes | None) -> bytes | None:
    """Returns a message in JSON without what names its schema. No JSON begins with such a byte."""
    if not message or message[0] > _BY_GUID:
        return message
    if message[0] == _BY_GUID:
        return message[_GUID:] if len(message) > _GUID else message
    return message[_id_end(message) :] if len(message) > _SHORT else message


def names_schema(message: bytes | None) -> bool:
    """Returns whether a message begins as one that names its schema does."""
    return bare(message) != message


def is_framed_json(message: bytes) -> bool:
    return names_schema(message) and (bare(message) or b"").lstrip()[:1] in (b"{", b"[")


def _identified(source: bytes) -> tuple[SchemaId, bytes]:
    if len(source) >= _SHORT and source[0] == _BY_ID:
        end = _id_end(source)
        return int.from_bytes(source[1:end], "big"), source[end:]
    if len(source) >= _GUID and source[0] == _BY_GUID:
        return str(UUID(bytes=source[1:_GUID])), source[_GUID:]
    raise Rejected(reject_reasons.NOT_FRAMED)


def _id_end(source: bytes) -> int:
    return _LONG if len(source) >= _LONG and not any(source[1:_SHORT]) else _SHORT


def indexed(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the path to a Protobuf message's type in its file, and its bytes. Raises Rejected.

    The path is a count and as many indexes, each a zigzag varint; a single zero is short for the first type.
    """
    count, at = _varint(content, 0)
    if count == 0:
        return (0,), content[at:]
    if not 0 < count <= len(content):
        raise Rejected(reject_reasons.BROKEN_INDEX)
    path = []
    for _ in range(count):
        index, at = _varint(content, at)
        if not 0 <= index <= _LARGEST_INDEX:
            raise Rejected(reject_reasons.BROKEN_INDEX)
        path.append(index)
    return tuple(path), content[at:]


def messages_of(content: bytes) -> list[bytes]:
    """Returns the Protobuf messages of a value in which each has its length in front, a varint, as Java's
    writeDelimitedTo and parseDelimitedFrom have it. Raises Rejected."""
    messages: list[bytes] = []
    at = 0
    while at < len(content):
        found = _unsigned(content, at)
        if found is None:
            raise Rejected(reject_reasons.broken_length(len(messages)))
        length, at = found
        if length > len(content) - at:
            raise Rejected(reject_reasons.ends_early(len(messages)))
        messages.append(content[at : at + length])
        at += length
    return messages


def _varint(content: bytes, at: int) -> tuple[int, int]:
    found = _unsigned(content, at)
    if found is None:
        raise Rejected(reject_reasons.BROKEN_INDEX)
    number, end = found
    return (number >> 1) ^ -(number & 1), end


def _unsigned(content: bytes, at: int) -> tuple[int, int] | None:
    """Returns a varint, and where it ends; None for one that ends nowhere."""
    number = 0
    for shift, byte in enumerate(content[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, at + shift + 1
    return None
