"""Text that data brought, made safe for where it goes: a line, a name within one, a metric's label.

A cell of a table is made in cli/output.py, a message to a person in watch/problems.py, SQL in
clients/clickhouse/sql.py, a key of the lake in clients/lake/layout.py, YAML in config/yaml_text.py, JSON and
URLs by their encoders.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

Say = Callable[[str], None]


class Remark(str):
    """What a person has to know, among lines that only say what is being done: it stays on the screen."""


"""Takes a line for the person who waits."""

NAME_CHARACTERS = 200
LINE_CHARACTERS = 200_000
"""A remedy may hold the CREATE TABLE of a thousand columns."""
LABEL_CHARACTERS = 56
"""Airflow sends a sample to StatsD only where its name and all its labels have 250 characters together."""

_BREAKS = re.compile(r"\s*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")
# A sample with any other character is dropped by Airflow's StatsD logger (validators.py, ALLOWED_CHARACTERS);
# the slash begins what stands for such a character.
_NOT_IN_A_LABEL = re.compile(r"[^A-Za-z0-9_.\-]")
_CHECKSUM = 8


def visible(text: str, most: int = NAME_CHARACTERS) -> str:
    """`text` with `\\x1b` for what a terminal would obey or not show: control characters, marks of
    direction, half surrogates. At most `most` characters of it, and `…` where it is longer: after a whole
    word, where it has any."""
    shown = text if len(text) <= most else _whole_words(text, most)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(text) <= most else f"{shown}…"


_LONGEST_WORD = 60


def _whole_words(text: str, most: int) -> str:
    last = text.rfind(" ", max(most - _LONGEST_WORD, 1), most + 1)
    return text[:most] if last < 0 else text[:last].rstrip()


def line(text: str, most: int = LINE_CHARACTERS) -> str:
    """`text` as one line of a terminal, a log or a message."""
    return visible(_BREAKS.sub(" ", text.strip()), most)


def label(text: str) -> str:
    """`text` as the value of a metric's label: `/xe9` stands for é, `/u65e5` for 日. A long one ends with a
    checksum, so that two texts have two labels."""
    if not text:
        return "/empty"
    shown = _NOT_IN_A_LABEL.sub(_code_point, text[: LABEL_CHARACTERS + 1])
    if len(shown) <= LABEL_CHARACTERS:
        return shown
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:_CHECKSUM]
    return f"{shown[: LABEL_CHARACTERS - _CHECKSUM - 1]}-{digest}"


def _code_point(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number < 0x100:
        return f"/x{number:02x}"
    return f"/u{number:04x}" if number < 0x10000 else f"/U{number:08x}"
