"""Divides a file of statements where the server ends them. Pure."""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<end>;)|'(?:\\.|''|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|.""",
    re.DOTALL,
)


def statements_in(text: str) -> list[str]:
    """Returns the statements without comments: a semicolon in a quoted text, a name or a comment ends
    none."""
    statements = [""]
    for part in _PARTS.finditer(text):
        if part["end"]:
            statements.append("")
        elif not part["comment"]:
            statements[-1] += part[0]
    return [statement.strip() for statement in statements if statement.strip()]
