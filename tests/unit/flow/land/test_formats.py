"""What Sluice stores says its format, and a newer one is refused by name, whatever its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice import manifest
from sluice.errors import SluiceError
from sluice.state.boundaries import log as encoding
from sluice.state.system_tables import LEDGER_FORMAT, create_system_tables

ROOT = Path(__file__).parents[4]
DECODERS: dict[str, tuple[int, Callable[[bytes, str], object]]] = {
    "manifest": (manifest.VERSION, manifest.decode),
    "boundary entry": (encoding.VERSION, encoding.decode_entry),
    "boundary checkpoint": (encoding.VERSION, encoding.decode_checkpoint),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_a_newer_object_of_any_shape_is_refused_by_name(kind: str):
    version, decode = DECODERS[kind]
    for content in ({}, {"topics": {"of": "another shape"}, "files": 7, "length": None}):
        data = json.dumps(content | {"version": version + 1}).encode()
        told = f"^s3://b/x has format {version + 1}, newer than this Sluice's {version}: upgrade$"
        with pytest.raises(SluiceError, match=told) as raised:
            decode(data, "s3://b/x")
        assert not raised.value.retryable


class Server:
    """A ClickHouse whose ledger has this comment, or that has no ledger; what was run is kept."""

    address = "ch:8123"

    def __init__(self, comment: str | None) -> None:
        self.comment, self.ran = comment, []

    def rows(self, sql: str, parameters: object = None) -> list[tuple]:
        if "EXPLAIN PLAN" in sql:
            return [("[]",)]
        return [] if self.comment is None else [("ledger", "MergeTree", self.comment)]

    def run(self, sql: str) -> None:
        self.ran.append(sql)


def test_a_newer_ledger_is_refused_before_anything_is_changed():
    server = Server(f"Sluice: what is committed, format {LEDGER_FORMAT + 1}")
    with pytest.raises(SluiceError, match=rf"ledger.*ch:8123 has format {LEDGER_FORMAT + 1}, newer.*upgrade"):
        create_system_tables(server, "sluice verify demo")
    assert server.ran == []


@pytest.mark.parametrize("comment", [None, f"Sluice: what is committed, format {LEDGER_FORMAT}"])
def test_a_ledger_of_this_format_and_none_are_fine(comment: str | None):
    server = Server(comment)
    create_system_tables(server, "sluice verify demo")
    assert any("sluice.ledger" in sql for sql in server.ran) == (comment is None)


def test_the_ledger_is_made_with_its_format():
    made = (ROOT / "include/sql/state/create_ledger.sql").read_text()
    assert re.search(r"COMMENT '.*format (\d+)'", made)[1] == str(LEDGER_FORMAT)


def test_the_documents_name_every_format():
    told = re.search(r"Manifest (\d+), boundary log (\d+), ledger (\d+)", (ROOT / "CHANGELOG.md").read_text())
    assert [int(one) for one in told.groups()] == [manifest.VERSION, encoding.VERSION, LEDGER_FORMAT]
