"""Text that data brought, made safe for where it goes: a line, a name within one, a metric's label.

A cell of a table is made in cli/output.py, a message to a person in alarms/text.py, SQL in load/sql.py, a
key of the lake in lake/layout.py, YAML in pipeline_yaml.py, JSON and URLs by their encoders.
"""

from __future__ import annotations

import re

NAME_CHARACTERS = 200
LINE_CHARACTERS = 200_000
"""A remedy may hold the CREATE TABLE of a thousand columns."""
LABEL_CHARACTERS = 100

_BREAKS = re.compile(r"\s*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")
# StatsD's own separators, and those of the InfluxDB form in which tags travel over it.
_NOT_IN_A_LABEL = re.compile(r"[\s,=:|@#]")


def visible(text: str, most: int = NAME_CHARACTERS) -> str:
    """`text` with `\\x1b` for what a terminal would obey or nobody could see: control characters, marks of
    direction, half surrogates. At most `most` characters of it, and `…` where it is longer."""
    shown = text if len(text) <= most else text[:most]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= most else f"{shown}…"


def line(text: str, most: int = LINE_CHARACTERS) -> str:
    """`text` as one line of a terminal, a log or a message."""
    return visible(_BREAKS.sub(" ", text.strip()), most)


def label(text: str) -> str:
    """`text` as the value of a metric's label. Long ones that begin alike become one."""
    return _NOT_IN_A_LABEL.sub("_", visible(text, LABEL_CHARACTERS)) or "(empty)"
