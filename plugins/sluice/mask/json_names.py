"""How a name may be spelled in JSON: as it is, and with escapes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_SHORT_ESCAPES = '"\\/\b\f\n\r\t'


def quoted(name: str) -> bytes:
    """Returns the name as most writers spell it."""
    return json.dumps(name, ensure_ascii=False).encode()


def escapes_of(names: Iterable[str]) -> re.Pattern[bytes]:
    """Returns what finds an escaped character that one of the names has: a text without a match spells each
    of them as `quoted` does, or has none."""
    alternatives = sorted({_escape(char) for name in names for char in name})
    return re.compile("|".join(alternatives).encode(), re.IGNORECASE)


def _escape(char: str) -> str:
    """Returns a regular expression for what the character may be in JSON but itself."""
    units = char.encode("utf-16-be").hex()
    long = "".join(rf"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return rf"{long}|\\" if char in _SHORT_ESCAPES else long
