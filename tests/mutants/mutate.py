"""The mutants of one source file: the operators are mutmut's, the choice of places is made here.

mutmut's own runner cannot be used: it knows modules by their path from the root (here they are below
`plugins/`), leaves out properties and everything outside functions, and judges each mutant by every test
that comes past it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_string

from tests.mutants import sql_texts

_TYPES = re.compile(r"(Literal|Mapping|Callable|Sequence|Iterable|Iterator|tuple|dict|list|set)\[")


Key = tuple[str, str, str]
"""Room, function, change."""


@dataclass(frozen=True)
class Mutant:
    """`function` is its qualified name, empty outside of functions; `change` are the lines that differ,
    `before → after`, without indentation: room and both find the mutant again after its lines moved."""

    room: str
    function: str
    change: str
    source: str

    @property
    def key(self) -> Key:
        return self.room, self.function, self.change


def mutants(room: str, source: str, sql: bool = False) -> list[Mutant]:
    """All of them, in the order of their places; with `sql` those of the SQL in its texts, too."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Places(sql)
    wrapper.visit(visitor)
    starts = _line_starts(source)
    found: list[Mutant] = []
    seen: set[str] = set()
    same: Counter[tuple[str, str]] = Counter()
    for function, begin, end, text in visitor.found:
        first, last = starts[begin[0] - 1] + begin[1], starts[end[0] - 1] + end[1]
        mutated = source[:first] + text + source[last:]
        if mutated in seen or mutated == source:
            continue
        seen.add(mutated)
        change = _change(source, mutated)
        same[function, change] += 1
        number = same[function, change]
        found.append(Mutant(room, function, change if number == 1 else f"{change} #{number}", mutated))
    return found


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _change(source: str, mutated: str) -> str:
    old, new = source.splitlines(), mutated.splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return f"{_squeezed(old)} → {_squeezed(new)}"


def _squeezed(lines: Iterable[str]) -> str:
    return " ".join(" ".join(lines).split())


class _Places(cst.CSTVisitor):
    """Gathers (function, begin, end, new text) of each mutation."""

    METADATA_DEPENDENCIES = (WhitespaceInclusivePositionProvider,)

    def __init__(self, sql: bool) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[int, int], tuple[int, int], str]] = []
        self._names: list[str] = []
        self._raising = 0
        self._sql = sql

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _never(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._names.append(node.name.value)
        self._raising += isinstance(node, cst.Raise)
        for mutated in self._mutated(node):
            self._add(node, mutated)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if _never(original_node):
            return
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef):
            self._names.pop()
        self._raising -= isinstance(original_node, cst.Raise)

    def _mutated(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if self._sql:
            yield from sql_texts.mutated(node)
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                of_one = operator(node)
                if operator is operator_string:
                    # How a message is worded is no behaviour; upper and lower case show no more than XX does.
                    of_one = [] if self._raising else list(of_one)[:1]
                yield from (one for one in of_one if not _needless(node, one))

    def _add(self, node: cst.CSTNode, mutated: cst.CSTNode) -> None:
        place = self.get_metadata(WhitespaceInclusivePositionProvider, node)
        text = cst.Module([]).code_for_node(mutated)
        begin, end = (place.start.line, place.start.column), (place.end.line, place.end.column)
        self.found.append((".".join(self._names), begin, end, text))


def _never(node: cst.CSTNode) -> bool:
    """Imports, annotations, decorators, docstrings, names of types and `strict=True`, which states what holds
    anyway, do nothing that a test could see."""
    if isinstance(node, cst.Import | cst.ImportFrom | cst.Annotation | cst.Decorator):
        return True
    if isinstance(node, cst.Arg):
        return _is_strict(node)
    if isinstance(node, cst.Expr):
        return isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
    if isinstance(node, cst.Assign):
        return bool(_TYPES.match(cst.Module([]).code_for_node(node.value)))
    return False


def _is_strict(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value == "strict"


def _needless(node: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    """A call that lacks `strict`, or a positional argument: without one nearly every call fails by itself,
    and another mutant has None in its place."""
    if not isinstance(node, cst.Call) or not isinstance(mutated, cst.Call) or node.func is not mutated.func:
        return False
    gone = [arg for arg in node.args if not any(arg is one for one in mutated.args)]
    if len(mutated.args) < len(node.args):
        return (gone[0].keyword is None and not gone[0].star) or _is_strict(gone[0])
    return bool(gone) and _is_strict(gone[0])
