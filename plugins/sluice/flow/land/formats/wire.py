"""Confluent's wire format: a zero byte, the schema's id in four bytes, and then the message.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
"""

from __future__ import annotations

from sluice.flow.land import reject_reasons
from sluice.flow.land.reject_reasons import Unparsed

_HEAD = 5
_VARINT_BYTES = 10
_LARGEST_INDEX = (1 << 31) - 1


def framed(message: bytes) -> tuple[int, bytes]:
    """Returns (schema id, what follows it). Raises Unparsed."""
    if len(message) < _HEAD or message[0] != 0:
        raise Unparsed(reject_reasons.NOT_FRAMED)
    return int.from_bytes(message[1:_HEAD], "big"), message[_HEAD:]


def indexed(content: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the path to a Protobuf message's type in its file, and its bytes. Raises Unparsed.

    The path is a count and as many indexes, each a zigzag varint; a single zero is short for the first type.
    """
    count, at = _varint(content, 0)
    if count == 0:
        return (0,), content[at:]
    if not 0 < count <= len(content):
        raise Unparsed(reject_reasons.NOT_FRAMED)
    path = []
    for _ in range(count):
        index, at = _varint(content, at)
        if not 0 <= index <= _LARGEST_INDEX:
            raise Unparsed(reject_reasons.NOT_FRAMED)
        path.append(index)
    return tuple(path), content[at:]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift, byte in enumerate(content[at : at + _VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + shift + 1
    raise Unparsed(reject_reasons.NOT_FRAMED)
