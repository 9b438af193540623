"""Changes values in a JSON text and leaves all of its other bytes as they are. Pure.

The text has been checked to be JSON before: what is not of interest is skipped, and not checked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

Rewrite = Callable[[bytes], bytes]
"""From the text of a JSON value to another. It is never asked for an array: its elements are asked for."""


class Drop(Enum):
    """The member is left out, with the comma that parts it from others."""

    DROP = "drop"


DROP: Final = Drop.DROP
EditTree = Mapping[str, "Rewrite | EditTree | Drop"]
"""What is done with the members of an object, by their names."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TEXT = re.compile(_STRING, re.DOTALL)
_MARK = re.compile(rb"[{}\[\]]|" + _STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\n\r,\]}]+")
_SPACE = re.compile(rb"[ \t\n\r]*")
_NAMES = json.JSONDecoder(strict=False)


def edited(text: bytes, rules: EditTree) -> bytes:
    """Returns the object in `text`, or the array of objects, with its members rewritten or left out. Of a
    name that is there twice both are; an array on the way means each of its elements. To be called where the
    stack is deep enough: sluice.runtime.deeper."""
    scan = _Scan(text)
    scan.value(scan.space(0), rules)
    return scan.result()


class _Scan:
    def __init__(self, text: bytes) -> None:
        self._text = text
        self._edits: list[tuple[int, int, bytes]] = []

    def result(self) -> bytes:
        parts, at = [], 0
        for start, end, new in self._edits:
            parts += [self._text[at:start], new]
            at = end
        return b"".join([*parts, self._text[at:]])

    def space(self, at: int) -> int:
        return _end(_SPACE, self._text, at)

    def value(self, at: int, rule: Rewrite | EditTree) -> int:
        """Changes the value that begins at `at`, and returns its end."""
        first = self._text[at : at + 1]
        if first == b"[":
            return self._array(at, rule)
        if not callable(rule):
            return self._object(at, rule) if first == b"{" else self._skip(at)
        end = self._skip(at)
        new = rule(self._text[at:end])
        if new != self._text[at:end]:
            self._edits.append((at, end, new))
        return end

    def _array(self, at: int, rule: Rewrite | EditTree) -> int:
        at = self.space(at + 1)
        while self._text[at : at + 1] != b"]":
            at = self.space(self.value(at, rule))
            if self._text[at : at + 1] == b",":
                at = self.space(at + 1)
        return at + 1

    def _object(self, at: int, rules: EditTree) -> int:
        at, kept = self.space(at + 1), -1
        while self._text[at : at + 1] != b"}":
            name_end = _end(_TEXT, self._text, at)
            value = self.space(self.space(name_end) + 1)
            name = _name(self._text[at:name_end])
            rule = None if name is None else rules.get(name)
            end = self._skip(value) if rule is None or rule is DROP else self.value(value, rule)
            after = self.space(end)
            last = self._text[after : after + 1] == b"}"
            following = after if last else self.space(after + 1)
            if rule is DROP:
                self._drop(at, end if last else following, kept if last else -1)
            else:
                kept = end
            at = following
        return at + 1

    def _drop(self, start: int, end: int, kept: int) -> None:
        """Leaves out a member. `kept`: the end of the last member that stays, where none follows."""
        start = start if kept < 0 else kept
        while self._edits and self._edits[-1][0] >= start:
            self._edits.pop()
        self._edits.append((start, end, b""))

    def _skip(self, at: int) -> int:
        """Returns the end of the value that begins at `at`."""
        first = self._text[at : at + 1]
        if first == b'"':
            return _end(_TEXT, self._text, at)
        if first not in (b"{", b"["):
            return _end(_SCALAR, self._text, at)
        level = 0
        for mark in _MARK.finditer(self._text, at):
            sign = self._text[mark.start()]
            level += (sign in b"{[") - (sign in b"}]")
            if not level:
                return mark.end()
        raise ValueError("no JSON")


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError("no JSON")
    return match.end()


def _name(text: bytes) -> str | None:
    """Returns None for a name that no reader can decode."""
    if b"\\" not in text:
        return text[1:-1].decode()
    try:
        name: str = _NAMES.decode(text.decode())
    except ValueError:
        return None
    return name
