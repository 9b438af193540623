"""Which modules a mutant cannot reach, by their import statements: imported once, before the forks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path


def untouched(room: str, files: Mapping[str, Path]) -> list[str]:
    """The modules of `files` that import the room neither themselves nor through another, in their order."""
    imports = {name: set(_imported(path)) & files.keys() for name, path in files.items()}
    reached = {room}
    while more := {name for name, known in imports.items() if known & reached} - reached:
        reached |= more
    return [name for name in files if name not in reached]


def _imported(path: Path) -> Iterator[str]:
    """Names that may be modules, wherever in the file they are imported."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
