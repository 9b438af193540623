"""Pipeline files of a hostile shape: one line each, and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluice.config import files
from sluice.config.yaml_text import MOST_DIGITS, MOST_VALUES, NotYaml, load
from sluice.errors import WrongPipeline

LEVELS = 12


def bomb(last: str = "x") -> str:
    """Ten to the twelfth copies of one word."""
    lines = [f"a0: &a0 [{', '.join([last] * 10)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, LEVELS)]
    return "\n".join(lines)


def merged() -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, LEVELS)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bomb(), "aliases"),
        (merged(), "aliases"),
        ("a: &a [*a]", "alias"),
        ("a: &a {b: *a}", "alias"),
        ("[" * 100_000, "nested too deeply"),
        ("a: " + "[" * 900 + "]" * 900, "nested too deeply"),
        ("a: " + "1" * 5000, "p.yaml:1:4.*more than 1,000 digits"),
        ("settle: 0x" + "f" * 5000, "p.yaml:1:9.*more than 1,000 digits"),
        ("alarms: {queue: 0b" + "1" * 20_000 + "}", "p.yaml:1:17.*more than 1,000 digits"),
        ("a: 0" + "7" * 5000, "more than 1,000 digits"),
        ("a: 1" + ":59" * 5000, "more than 1,000 digits"),
        ("alarms: {fewer: " + "1:" * 300 + "1.5}", "p.yaml:1:17.*a number that is too large"),
        ("? " + "k" * 900_000 + "\n: x", "k…: no such key"),
        ("? " + "k" * 400_000 + "\n: 1\n? " + "k" * 400_000 + "\n: 2", "not YAML: 'kkk"),
        ("start: 2026-13-45", "month"),
        ("settle: !!bool x", "p.yaml:1:9.*a YAML tag.*leave it out"),
        ("name: a\nstart: !!timestamp x", "p.yaml:2:8.*a YAML tag"),
        ("a: !!int ''", "p.yaml:1:4.*a YAML tag"),
        ("a: [1, &b !!float '']", "p.yaml:1:11.*a YAML tag"),
        ("a: !!str 1", "p.yaml:1:4.*a YAML tag"),
        ("!!str a: 1", "p.yaml:1:1.*a YAML tag"),
        ("--- !!map\na: 1", "p.yaml:1:5.*a YAML tag"),
        ("a: ! 1", "p.yaml:1:4.*a YAML tag"),
        ("a: !<tag:yaml.org,2002:int> ''", "p.yaml:1:4.*a YAML tag"),
        ("%TAG ! tag:yaml.org,2002:\n---\na: !bool x", "p.yaml:3:4.*a YAML tag"),
        ("a: !<" + "%0A" * 1000 + "> x", "p.yaml:1:4.*a YAML tag"),
        ("#" * ((1 << 20) + 1), "cannot be read: it has more than 1 MiB"),
        ("a: \x00", "not YAML"),
        ("? [a]\n: b", "not YAML"),
    ],
    ids=lambda value: value[:12],
)
def test_a_hostile_file_is_one_line(tmp_path: Path, text: str, said: str):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    began = time.process_time()
    with pytest.raises(WrongPipeline, match=said) as caught:
        files.read(path, {})
    took = time.process_time() - began
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000
    assert took < 20  # an unbounded one takes hours


def test_numbers_up_to_the_bound_are_what_they_are(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text(f"a: {'9' * MOST_DIGITS}\nb: 0x1F\nc: 1_000\nd: {'9' * (MOST_DIGITS + 1)}.0")
    assert load(path) == {"a": 10**MOST_DIGITS - 1, "b": 31, "c": 1000, "d": float("inf")}
    path.write_text(f"a: {'9' * (MOST_DIGITS + 1)}")
    with pytest.raises(NotYaml, match="more than 1,000 digits"):
        load(path)


def test_an_exclamation_mark_that_begins_no_tag_is_text(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text("a: '!!bool x'\nb: \"!\"\nc: x !!int y # !!float\n")
    assert load(path) == {"a": "!!bool x", "b": "!", "c": "x !!int y"}


@pytest.mark.long
def test_aliases_up_to_the_bound_are_what_they_stand_for(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text("a: &a {x: 1, y: [2, 3]}\nb: {<<: *a, z: 4}\nc: [*a, *a]")
    one = {"x": 1, "y": [2, 3]}
    assert load(path) == {"a": one, "b": {**one, "z": 4}, "c": [one, one]}
    # A mapping, its key, a list, and in it as many words.
    path.write_text(f"a: [{', '.join(['x'] * (MOST_VALUES - 3))}]")
    assert load(path) == {"a": ["x"] * (MOST_VALUES - 3)}
    path.write_text(f"a: [{', '.join(['x'] * (MOST_VALUES - 2))}]")
    with pytest.raises(NotYaml, match="100,000 values"):
        load(path)
