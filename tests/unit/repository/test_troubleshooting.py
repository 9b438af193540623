"""docs/guide/troubleshooting.md lists messages that exist, and every error's."""

from __future__ import annotations

import ast
import re
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

from sluice import errors
from sluice.errors import SluiceError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^\| `([^`]*)` \|", PAGE, re.M)
VALUES = {"str": "x", "int": 1, "bool": False, "frozenset[tuple[str, str]]": frozenset()}
MADE_OF_TEXT = (errors.TargetRefused,)  # its subclasses, too: the page lists what it says of a table
GAP = "\0"


@cache
def templates() -> tuple[str, ...]:
    """Every text of the library, with a gap for each value; templates of str.format have gaps, too."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "plugins/sluice").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    texts = (text for node in nodes if id(node) not in told for text in texts_of(node))
    return tuple(dict.fromkeys(re.sub(r"\{\w*(![rs])?\}|`[^`]*`", GAP, text) for text in texts))


def texts_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(v.value) if isinstance(v, ast.Constant) else GAP for v in node.values)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def concrete() -> list[type[SluiceError]]:
    """The errors that have a message of their own: those with fields."""
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    own = [one for one in found if issubclass(one, SluiceError) and is_dataclass(one) and fields(one)]
    return [one for one in own if not issubclass(one, MADE_OF_TEXT)]


def example(error: type[SluiceError]) -> str:
    """Its message. What a pipeline file's key should have been begins with `expected` in all of them."""
    given = {field.name: VALUES[field.type] for field in fields(error)}
    return str(error(**given | ({"expected": "expected x"} if "expected" in given else {})))


def pattern(message: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, message.split("…"))).replace(r"\ ", " "), re.S)


def matches(message: str, text: str) -> bool:
    """Whether the fixed parts of `message` stand in `text`, in their order."""
    at = 0
    for part in filter(None, (part.strip() for part in message.split("…"))):
        at = text.find(part, at) + len(part)
        if at < len(part):
            return False
    return True


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_library(message: str):
    assert any(matches(message, text) for text in (*templates(), *map(example, concrete())))


@pytest.mark.parametrize("error", concrete(), ids=lambda error: error.__name__)
def test_every_error_is_explained(error: type[SluiceError]):
    said = example(error)
    assert any(pattern(message).fullmatch(said) for message in MESSAGES), said


def test_messages_are_found():
    assert "`table …: …; …`" in PAGE
    assert len(MESSAGES) > 40 and len(set(MESSAGES)) == len(MESSAGES)
