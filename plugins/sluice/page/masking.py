"""Masks a payload: keeps structure and field names, and puts kinds in place of values. Pure.

A payload may be cut anywhere, and need not be JSON: it is shown as far as it is, and what follows is hidden.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<object>\{) | (?P<list>\[) | (?P<end_object>\}) | (?P<end_list>\])
    | (?P<comma>,) | (?P<colon>:) | (?P<text>"(?:[^"\\]|\\.)*") | (?P<null>null\b)
    | (?P<boolean>(?:true|false)\b) | (?P<number>-?[0-9][0-9.eE+-]*(?![\w.]))""",
    re.VERBOSE | re.DOTALL,
)
# A key that is no field's name, such as an address or a number, is data.
_NAME = re.compile(r"[^\W\d]\w{0,63}(?:[.-]\w{1,63}){0,7}")
_SCALARS = frozenset({"text", "null", "boolean", "number"})
_VALUES = _SCALARS | {"object", "list"}
_SIGNS = {"object": "{", "list": "[", "end_object": "}", "end_list": "]", "comma": ", ", "colon": ": "}


def masked(text: str) -> str:
    """`{"id": 7, "who": "Ann"}`: `{"id": number, "who": text}`."""
    scan, at = _Scan(), 0
    while (token := _TOKEN.match(text, at)) is not None and scan.takes(token):
        at = token.end()
    hidden = len(text) - at
    return "".join(scan.shown) + (f"… ({hidden:,} characters are hidden)" if hidden else "")


class _Scan:
    """JSON's grammar: `_next` are the kinds of tokens that may follow, `_closers` the open brackets' ends."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self._closers: list[str] = []
        self._next = _VALUES

    def takes(self, token: re.Match[str]) -> bool:
        kind = token.lastgroup or ""
        if kind == "space":
            return True
        if kind not in self._next:
            return False
        if kind in _SCALARS:
            self._scalar(kind, token[0])
        else:
            self.shown.append(_SIGNS[kind])
            self._next = self._after(kind)
        return True

    def _scalar(self, kind: str, text: str) -> None:
        if "null" in self._next:
            self.shown.append(kind)
            self._next = self._follow()
        else:
            self.shown.append(text if _NAME.fullmatch(text[1:-1]) else '"…"')
            self._next = frozenset({"colon"})

    def _after(self, sign: str) -> frozenset[str]:
        if sign in ("object", "list"):
            self._closers.append(f"end_{sign}")
            return frozenset({"text", "end_object"}) if sign == "object" else _VALUES | {"end_list"}
        if sign == "colon":
            return _VALUES
        if sign == "comma":
            return frozenset({"text"}) if self._closers[-1] == "end_object" else _VALUES
        self._closers.pop()
        return self._follow()

    def _follow(self) -> frozenset[str]:
        return frozenset({"comma", self._closers[-1]}) if self._closers else frozenset()
