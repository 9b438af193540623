"""CONTRIBUTING.md's bounds of files and functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("plugins/sluice", "spark_jobs", "dags", "local")
LINES, FUNCTION_LINES = 250, 40
# The exceptions, each a few lines, stand in one file: who searches a message or a remedy finds it there.
CATALOGUE = ROOT / "plugins/sluice/errors.py"


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_and_functions_are_short(folder: str):
    long = []
    for path in sorted(Path(ROOT, folder).rglob("*.py")):
        text, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        if text.count("\n") > LINES and path != CATALOGUE:
            long.append(f"{place}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{place}: {node.name} has {lines} lines")
    assert long == []
