"""Every command and statement in a message is whole: whoever reads it pastes it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import Exit, TyperException

from sluice.cli.commands import commands
from sluice.runtime import PROJECT

SOURCES = sorted((PROJECT / "plugins" / "sluice").rglob("*.py"))
TYPED = ("cli", "init")
"""Where an error names an option of the very command that was typed."""
GAP = "9"
"""Stands for what a message fills in. A number, a path, a name and a word of any option are texts like it."""
RANGE = ("--from", "2026-11-20T10:00Z", "--to", "2026-11-20T11:00Z")
STATEMENT = re.compile(r"(ALTER|CREATE|DROP|DELETE|INSERT|RENAME|GRANT|TRUNCATE|DETACH|ATTACH|EXCHANGE)\b")
COMPLETE = {
    "ALTER": r"ALTER (TABLE|USER|SETTINGS PROFILE) \S+ \S.*",
    "CREATE": r"CREATE (TABLE|DATABASE|MATERIALIZED VIEW|VIEW) \S.*",
    "DROP": r"DROP (TABLE|VIEW) \S+.*",
    "DELETE": r"DELETE FROM \S+ WHERE \S.*",
    "GRANT": r"GRANT \S.* ON \S+ TO \S+",
    "RENAME": r"RENAME TABLE \S+ TO \S+",
}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text of a module but docstrings, with GAP for what is filled in."""
    parts = {id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            whole = "".join(v.value if isinstance(v, ast.Constant) else GAP for v in node.values)
            yield node.lineno, whole
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | alone:
            yield node.lineno, re.sub(r"\{\w+\}", GAP, node.value)


def quoted(path: Path) -> Iterator[tuple[str, str]]:
    for line, text in texts(ast.parse(path.read_text())):
        for found in re.findall(r"`([^`]+)`", text):
            yield f"{path.relative_to(PROJECT)}:{line}", found


def parses(words: list[str]) -> str:
    """Returns why `sluice` with these words is no command; empty where it is one."""
    command: Any = typer.main.get_command(commands)
    try:
        context = command.make_context("sluice", list(words))
        while subcommands := getattr(context.command, "commands", None):
            name, *left = context._protected_args + context.args
            context = subcommands[name].make_context(name, left, parent=context)
    except Exit:
        return ""  # --help
    except (TyperException, KeyError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def half(place: str, text: str) -> str:
    """Returns what is wrong with a text in backticks; empty where nothing is."""
    if "…" in text:
        return "has a gap" if STATEMENT.match(text) or text.startswith(("sluice ", "airflow ")) else ""
    if text.startswith("sluice ") or text == "sluice":
        return parses(shlex.split(text)[1:])
    if text.startswith("airflow "):
        return "" if len(text.split()) > 2 else "is no command"
    if text.startswith("--"):
        room = Path(place).parts[2]
        return "" if room in TYPED or (room == "config" and "--config" in text) else "is an option alone"
    if (word := STATEMENT.match(text)) is not None:
        return "" if re.fullmatch(COMPLETE.get(word[1], "(?!)"), text, re.DOTALL) else "is no statement"
    return ""


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("sluice run adx --from 2026-11-20T10:00Z --to now --mode reland", True),
        ("sluice run --mode reland", False),
        ("sluice verify", False),
        ("sluice verify adx --clean", True),
        ("sluice accept adx bids --from 2026-11-20T10:00Z", True),
        ("sluice accept adx bids", False),
        ("sluice rejected --retry", False),
        ("sluice run adx --mood fill", False),
        ("sluice --help", True),
        ("--mode reland", False),
        ("ALTER TABLE t", False),
        ("ALTER TABLE t ADD COLUMN n UInt8", True),
        ("GRANT SELECT ON t", False),
        ("GRANT SELECT ON t TO me", True),
    ],
)
def test_what_is_whole(text: str, whole: bool):
    assert (half("plugins/sluice/flow/x.py:1", text) == "") is whole


def test_every_text_in_backticks_is_whole():
    wrong = [
        f"{place}: `{text}` {why}"
        for path in SOURCES
        for place, text in quoted(path)
        if (why := half(place, text))
    ]
    assert wrong == []


def called(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The words that a module gives to `command`, which writes them behind the pipeline's name."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="command"), args=[ast.Constant(value=str(name)), *rest]):
                yield f"{path.relative_to(PROJECT)}:{node.lineno}", [name, "adx", *words_of(rest)]


def words_of(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        match argument:
            case ast.Constant(value=str(word)):
                yield word
            case ast.Starred(value=ast.Attribute(attr="words") | ast.Call(func=ast.Name(id="words_of"))):
                yield from RANGE
            case ast.Starred():
                pass  # words that a variable holds
            case _:
                yield GAP


def test_every_command_that_is_written_is_one():
    found = [(place, words) for path in SOURCES for place, words in called(path)]
    assert len(found) > 30
    assert [f"{place}: {words} {why}" for place, words in found if (why := parses(words))] == []
