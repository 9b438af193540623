"""Names that become folders, file names and table names."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator


def _plain_name(value: str) -> str:
    """Names that become folders, file names and table names have to be plain."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.]{0,62}", value):
        raise ValueError("expected letters, digits, _ and . only, at most 63")
    return value


PlainName = Annotated[str, AfterValidator(_plain_name)]
