"""Whatever a pipeline file says, it is read in time that grows as the file does. What is counted are steps of
Python, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.config import files
from sluice.config.variables import assigns_secret
from sluice.errors import WrongPipeline

BASE = """kafka:
  - {cluster: local, bootstrap: "x:1", topics: [t]}
event: {type: {field: type}, time: {field: at}}
lake: file:///tmp/l
"""
TABLES = 'tables: {"*": a.b}\n'


def repeated(line: str) -> Callable[[int], str]:
    return lambda count: "".join(line.format(n=number) for number in range(count))


def listed(before: str, line: str, after: str = "") -> Callable[[int], str]:
    return lambda count: before + repeated(line)(count) + after


SHAPES = {
    "unknown keys": listed(BASE + TABLES, "zz{n}: x\n"),
    "unknown keys below": listed(BASE + TABLES + "keep:\n", "  zz{n}: x\n"),
    "spark": listed(BASE + TABLES + "spark:\n", "  k{n}: x\n"),
    "mask": listed(BASE + TABLES + "mask:\n", "  f{n}.a: drop\n"),
    "counts": listed(BASE + TABLES + "counts:\n  - table: a.c\n    by:\n", "      f{n}: g{n}.a\n"),
    "tables": listed(BASE + "tables:\n", "  t{n}: a.t{n}\n"),
    "columns": listed(BASE + "tables:\n  x:\n    table: a.b\n    columns:\n", "      c{n}: f{n}\n"),
    "rollups": listed(BASE + TABLES + "rollups:\n", "  a.r{n}: {{from: a.b, sql: s.sql}}\n"),
    "topics": listed(
        "kafka:\n  - cluster: c\n    bootstrap: x:1\n    topics:\n",
        "      - t{n}\n",
        BASE.partition("]}\n")[2] + TABLES,
    ),
    "clusters": listed(
        "kafka:\n",
        "  - {{cluster: c{n}, bootstrap: x{n}, topics: [t]}}\n",
        BASE.partition("]}\n")[2] + TABLES,
    ),
    "shards": listed(BASE + TABLES + "clickhouse:\n  shards:\n", "    - {{name: s{n}, connection: c{n}}}\n"),
    "keys twice": listed(BASE + TABLES, "settle: 1m\n"),
    "variables": listed(BASE + TABLES + "airflow:\n  tags: [", "'${{SLUICE_VAR_A:-x}}',", "]\n"),
}


def steps(act: Callable[[], object]) -> int:
    """How many lines and functions of Python an act takes."""
    count = 0

    def trace(_frame: object, _event: str, _arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_file_of_twice_as_many_parts_takes_twice_as_long(shape: Callable[[int], str], tmp_path: Path):
    (tmp_path / "s.sql").write_text("SELECT _slice, _cluster, count() AS n FROM {source} GROUP BY ALL")
    file = tmp_path / "p.yaml"

    def read() -> None:
        with suppress(WrongPipeline):
            files.read(file)

    taken = []
    for count in (10, 150, 300):
        file.write_text(shape(count))
        taken.append(steps(read))
    assert taken[2] - taken[1] < 1.5 * (taken[1] - taken[0])


def test_a_long_text_is_searched_for_secrets_once():
    """With a beginning in each of its places half a megabyte would take half an hour."""
    for text in ("a" * 500_000, "a " * 250_000, "a" + " " * 500_000, "a." * 250_000):
        assert not assigns_secret(text)
        assert assigns_secret(f"{text} -Dx.password=y")
