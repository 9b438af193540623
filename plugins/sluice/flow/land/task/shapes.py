"""An event's shape: the names of its top-level fields, in their order, and the kind of each value."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sluice.type_fields import KINDS

EventShape = tuple[tuple[str, ...], tuple[type, ...]]
"""Kinds are the types of decoded values: KIND_OF numbers them."""

KIND_OF: dict[type, int] = {
    kind: KINDS.index(name)
    for kind, name in (
        (type(None), "null"),
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    )
}

_decode = msgspec.json.Decoder().decode
# Numbers beyond a double's range, integers of thousands of digits.
_ANY = json.JSONDecoder(parse_int=lambda _: 0, parse_float=lambda _: 0.0)


def shape_of(payload: bytes) -> EventShape:
    """Returns the shape of a JSON object that has landed."""
    try:
        event: dict[str, Any] = _decode(payload)
    except (msgspec.MsgspecError, ValueError):
        event = _ANY.decode(payload.decode())
    return tuple(event), tuple(map(type, event.values()))
