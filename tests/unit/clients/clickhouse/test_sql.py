"""Statements come from include/sql; whatever a name holds, it stays a name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sluice
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table

FOLDER = Path(__file__).parents[4] / "include" / "sql"
# The demos have folders of their own.
STATEMENTS = sorted(path for path in FOLDER.glob("*/*.sql") if not path.parent.name.startswith("demo"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in STATEMENTS]


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("clicks", "`clicks`"),
        ("a`b", "`a\\`b`"),
        ("a\\", "`a\\\\`"),
        ("`; DROP TABLE x; --", "`\\`; DROP TABLE x; --`"),
        ("it's", "`it's`"),
    ],
)
def test_identifiers_are_quoted(name: str, quoted: str):
    assert identifier(name) == quoted


def test_a_table_is_database_and_name():
    assert table("db.t") == "`db`.`t`"
    assert literal("it's \\ {x}") == "'it\\'s \\\\ {x}'"


def unquote(text: str) -> str:
    """As the server reads it: `\\xHH` is a byte."""
    escape = re.compile(rb"\\(?:x(..)|(.))", re.DOTALL)
    found = escape.sub(lambda e: bytes.fromhex(e[1].decode()) if e[1] else e[2], text[1:-1].encode())
    return found.decode(errors="surrogatepass")


@given(st.text(st.characters()))
def test_quoting_can_be_undone_and_never_ends_early(text: str):
    for quoted, mark in ((literal(text), "'"), (identifier(text), "`")):
        assert unquote(quoted) == text
        assert quoted.isprintable()
        assert not re.search(rf"(?<!\\)(\\\\)*{mark}", quoted[1:-1])


def test_only_quoted_parts_are_taken():
    with pytest.raises(TypeError, match="not quoted"):
        render("clickhouse/drop_table", table="clicks")
    with pytest.raises(KeyError, match="drop_table"):
        render("clickhouse/drop_table")
    with pytest.raises(KeyError, match="drop_table"):
        render("clickhouse/drop_table", table=Sql("t"), more=Sql("x"))


def test_a_part_that_looks_like_a_placeholder_stays_as_it_is():
    assert render("clickhouse/drop_table", table=identifier("{table}")) == "DROP TABLE IF EXISTS `{table}`"


@pytest.mark.parametrize("path", STATEMENTS, ids=NAMES)
def test_each_file_is_one_statement_that_some_code_uses(path: Path):
    text = path.read_text()
    assert ";" not in re.sub(r"--.*", "", text)
    used = "".join(file.read_text() for file in Path(sluice.__file__).parent.rglob("*.py"))
    assert f'"{path.parent.name}/{path.stem}"' in used
