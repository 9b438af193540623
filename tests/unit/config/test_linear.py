"""Whatever a pipeline file says, it is read in time that grows as the file does. What is counted are steps of
Python, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType

import pytest

from sluice.config import files
from sluice.config.clickhouse import _UNSURE, ClickHouse
from sluice.config.explain import explain
from sluice.config.pipeline import MOST_TABLES, Keep
from sluice.config.target import Target
from sluice.config.yaml_text import assigns_secret
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


SHAPES: dict[str, Callable[[int], str]] = {
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


def steps(act: Callable[[], object], of: str = "") -> int:
    """How many lines and functions of Python an act takes in files whose path has `of` in it."""
    count = 0

    def trace(frame: FrameType, _event: str, _arg: object) -> object:
        nonlocal count
        if of not in frame.f_code.co_filename:
            return None
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
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

    assert_linear(read, file, shape)


def test_a_file_of_twice_as_many_parts_is_explained_in_twice_the_time(tmp_path: Path):
    file = tmp_path / "p.yaml"
    assert_linear(lambda: explain(file), file, SHAPES["tables"], of="plugins/sluice")


def assert_linear(act: Callable[[], object], file: Path, shape: Callable[[int], str], of: str = "") -> None:
    taken = []
    for count in (10, 150, 300):
        file.write_text(shape(count))
        taken.append(steps(act, of))
    assert taken[2] - taken[1] < 1.5 * (taken[1] - taken[0])


def test_a_long_text_is_searched_for_secrets_once():
    """With a beginning in each of its places half a megabyte would take half an hour."""
    for text in ("a" * 500_000, "a " * 250_000, "a" + " " * 500_000, "a." * 250_000):
        assert not assigns_secret(text)
        assert assigns_secret(f"{text} -Dx.password=y")


def test_the_types_of_a_table_are_gathered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a tuple for each type 45,000 of them took 12 s."""
    copied, copy = [], Target.model_copy

    def noted(self: Target, *, update: dict[str, tuple[str, ...]]) -> Target:
        copied.append(len(update["types"]))
        return copy(self, update=update)

    monkeypatch.setattr(Target, "model_copy", noted)
    file = tmp_path / "p.yaml"
    file.write_text(BASE + "tables:\n  '*': a.b\n" + repeated("  t{n}: a.b\n")(500))
    (target,) = files.read(file).targets
    assert target.types == tuple(f"t{number}" for number in range(500)) and target.catch_all
    assert {*copied} == {500} and len(copied) <= 3


def test_a_table_that_is_kept_is_looked_up():
    """With a tuple of all tables for each, 20,000 took 8 s."""

    class Tables(set[str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all are gone through")

    Keep.model_validate({"tables": {"a.b": "7d", "*": "7d"}}).check(timedelta(1), Tables({"a.b"}))


def test_a_word_is_searched_for_unsure_functions_once():
    """With a second look for each `UUID` in a word these would take hours."""
    for text in ("UUID" * 250_000, "now" * 300_000, "generate" * 125_000, "now" + "/**/" * 250_000):
        assert not _UNSURE.search(text)
        assert _UNSURE.search(f"{text}\u00e9 + xUUIDxUUIDx (1)")[1] == "xUUIDxUUIDx"


def test_an_expression_has_a_bound():
    shards = [{"name": "s", "connection": "c"}]
    assert ClickHouse(shards=shards, shard_by="n" * 1_000).shard_by == "n" * 1_000
    for wrong in ("n" * 1_001, {"a.b": "now/*" * 201}):
        with pytest.raises(ValueError, match="at most 1,000 characters"):
            ClickHouse(shards=shards, shard_by=wrong)


@pytest.mark.parametrize("key", ["tables", "rollups"])
def test_tables_and_rollups_have_a_bound(tmp_path: Path, key: str):
    """Each is a task of the DAG, and each rollup reads a file of its own size."""
    file = tmp_path / "p.yaml"
    (tmp_path / "s.sql").write_text("SELECT _slice, _cluster, count() AS n FROM {source} GROUP BY ALL")
    for count in (MOST_TABLES, MOST_TABLES + 1):
        file.write_text(SHAPES[key](count))
        if count == MOST_TABLES:
            assert len(getattr(files.read(file), key)) == count
        else:
            with pytest.raises(WrongPipeline, match=f"{key}: expected at most 1,000"):
                files.read(file)
