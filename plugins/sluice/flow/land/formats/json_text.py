"""A decoded event as JSON, so that nothing is changed without a word.

Whole numbers have all their digits; bytes are base64; decimals are text with all digits of their scale;
instants are ISO 8601 in UTC, local ones without a zone; numbers that JSON lacks are the texts `NaN`,
`Infinity` and `-Infinity`, which no number column takes.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")


def json_text(event: Any, floats: bool = True) -> bytes:
    """`floats`: whether one may be in the event. Raises UnicodeEncodeError for half a surrogate pair,
    TypeError for what no schema gives."""
    text = _ENCODER.encode(event)
    # The encoder writes NaN as null. To look at each value takes as long as to decode it.
    return _ENCODER.encode(_finite(event)) if floats and b"null" in text else text


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
