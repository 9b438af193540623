"""Sizes as pipeline files write them: `900KiB`, `64MiB`, `1GiB`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_size(value: Any) -> int:
    """Bytes. Raises ValueError when `value` is neither their number nor a text such as `64MiB`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"([0-9]{1,9}) ?([KMG]iB)", str(value))
    if found is None:
        raise ValueError(f"expected a size such as 900KiB, 64MiB or 1GiB, not {value!r}")
    return int(found[1]) * _UNITS[found[2]]


Size = Annotated[int, BeforeValidator(parse_size)]
