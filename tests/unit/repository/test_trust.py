"""docs/guide/trust.md: each cell names what holds it, and each of these is a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MATRIX, HELD = (ROOT / "docs/guide/trust.md").read_text().split("## What holds it")


def rows(text: str) -> list[list[str]]:
    """The cells of its table, below the heading."""
    lines = re.findall(r"^\| (.+) \|$", text, re.M)
    return [line.split(" | ") for line in lines[2:]]


TESTS = {int(number): test for number, test in rows(HELD)}


@pytest.mark.parametrize("test", TESTS.values())
def test_each_is_there(test: str):
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.M)


def test_every_cell_is_held_or_promises_nothing():
    """The numbers run from 1, and each is used."""
    free = {"–", "its own", "embedded Kafka asks for no login"}
    used: set[int] = set()
    for who, *cells in rows(MATRIX):
        assert len(cells) == 7, who
        for cell in cells:
            groups = re.findall(r"\(([\d, ]+)\)", cell)
            assert bool(groups) != (cell in free), f"{who}: {cell}"
            used |= {int(number) for group in groups for number in group.split(", ")}
    assert used == set(TESTS) == set(range(1, len(TESTS) + 1))


@pytest.mark.parametrize("file", ["README.md", "SECURITY.md", "local/documents/mkdocs.yml"])
def test_it_is_found(file: str):
    assert "docs/guide/trust.md" in (ROOT / file).read_text()
