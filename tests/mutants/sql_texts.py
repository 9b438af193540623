"""Mutants of SQL that stands in Python's strings: comparisons, logic and numbers within the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

_SWAPS = {
    "<=": "<",
    ">=": ">",
    "<": "<=",
    ">": ">=",
    "!=": "=",
    "=": "!=",
    "AND": "OR",
    "OR": "AND",
    "NOT": "",
    "+": "-",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
}
_TOKEN = re.compile(r"<=|>=|!=|->|[<>=+]|\b(?:AND|OR|IS NULL|IS NOT NULL|NOT)\b|(?<![\w.{\\])\d+(?![\w.}])")


def mutated(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Of a string, or of a text between the gaps of an f-string, one per token."""
    if not isinstance(node, cst.SimpleString | cst.FormattedStringText):
        return
    if isinstance(node, cst.SimpleString) and node.quote in ('"""', "'''"):
        return
    for found in _TOKEN.finditer(node.value):
        token = found.group()
        if token == "->":
            continue
        swap = str(int(token) + 1) if token.isdigit() else _SWAPS[token]
        yield node.with_changes(value=node.value[: found.start()] + swap + node.value[found.end() :])
