"""Text of data is never markup, an order to a terminal, or without a bound: every way out, for every text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import StringIO

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sluice.cli import output
from sluice.config.yaml_text import scalar
from sluice.doctor.check import Area, fail
from sluice.doctor.proposed_tables import column_name, propose
from sluice.flow.load.casts.columns import RULES
from sluice.safe_text import LINE_CHARACTERS, NAME_CHARACTERS, label, line, visible
from sluice.watch import problems as message
from sluice.watch.problems import MOST_LINES, Alarm, Notice, Problem, ProblemKind
from tests.support.hostile_texts import HALVES, TEXTS, as_sent, is_plain, links
from tests.unit.doctor.test_doctor_kafka import pipeline

EVERY = {**TEXTS, **HALVES}
each = pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)


def shown(renderable: object) -> str:
    out = StringIO()
    Console(file=out, width=2000, force_terminal=False, color_system=None).print(renderable)
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("click", "click"),
        ("[/x]", "[/x]"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("one\ntwo", "one\\ntwo"),
        ("a\0b", "a\\x00b"),
        ("\ufffe", "\\ufffe"),
        ("\ud800", "\\ud800"),
        ("שלום 日本 🙂 é", "שלום 日本 🙂 é"),
        ("\\x1b", "\\x1b"),
        ("x" * NAME_CHARACTERS, "x" * NAME_CHARACTERS),
        ("x" * (NAME_CHARACTERS + 1), "x" * NAME_CHARACTERS + "…"),
    ],
)
def test_what_is_seen_of_a_text(text: str, seen: str):
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("CREATE TABLE t\n(\n    a  Int8\n)", "CREATE TABLE t ( a  Int8 )"),
        ("at\torg.apache", "at org.apache"),
        ("two  spaces in 'a path'", "two  spaces in 'a path'"),
        ("a\u2028b\x1cc", "a b c"),
        ("x" * LINE_CHARACTERS, "x" * LINE_CHARACTERS),
        ("x" * (LINE_CHARACTERS + 1), "x" * LINE_CHARACTERS + "…"),
    ],
)
def test_what_is_a_line(text: str, seen: str):
    assert line(text) == seen


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("click", "click"),
        ("a_b-c.d", "a_b-c.d"),
        ("a b", "a/x20b"),
        ("a/b", "a/x2fb"),
        ("a|c#x:1,y=2@0.1", "a/x7cc/x23x/x3a1/x2cy/x3d2/x400.1"),
        ("clé", "cl/xe9"),
        ("日本", "/u65e5/u672c"),
        ("🙂", "/U0001f642"),
        ("a\ud83d", "a/ud83d"),
        ("", "/empty"),
        ("x" * 56, "x" * 56),
        # The checksum is that of `printf x%.0s {1..57} | sha256sum`.
        ("x" * 57, "x" * 47 + "-ae14a256"),
        ("é" * 14, "/xe9" * 14),
        ("é" * 15, "/xe9" * 11 + "/xe-1c996df0"),
    ],
)
def test_the_value_of_a_label(text: str, value: str):
    assert label(text) == value


@given(st.lists(st.text(st.characters(), max_size=80) | st.sampled_from([*EVERY.values()]), unique=True))
def test_two_texts_have_two_labels(texts: list[str]):
    found = [label(text) for text in texts]
    assert len(set(found)) == len(texts)
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-/]{1,56}", one) for one in found)


@given(st.text(st.characters(), max_size=400))
def test_no_text_becomes_anything_else(text: str):
    for made in (visible(text), line(text), label(text)):
        assert made.isprintable() and is_plain(made)
        assert len(made) <= 10 * LINE_CHARACTERS
        made.encode()


@each
def test_a_cell_a_title_and_a_column(text: str):
    """Rich finds no markup in them, and the terminal no order."""
    table = shown(output.table_of(text, [text], [[text], [1234]]))
    assert is_plain(table.replace("\n", ""))
    assert len(text) > 100 or table.replace(" ", "").count(visible(text).replace(" ", "")) >= 2
    assert "1,234" in table


@each
def test_lines_between_tables_and_progress(text: str, capsys: pytest.CaptureFixture[str]):
    assert shown(output.text_of(text)).strip() == line(text).strip()
    output.progress(text)
    output.print_line(text)
    output.print_facts({text: text})
    out, err = capsys.readouterr()
    assert err == line(text) + "\n"
    assert out.splitlines() == [line(text), line(f"{text}: {text}")]


@each
def test_a_check_is_one_line(text: str, capsys: pytest.CaptureFixture[str]):
    output.print_checks([fail(Area.SCHEMA, text, text, text)])
    check, counts = capsys.readouterr().out.splitlines()
    assert is_plain(check) and counts.endswith("1 fail")


@each
def test_json_is_ascii(text: str, capsys: pytest.CaptureFixture[str]):
    output.print_json({text: text})
    told = capsys.readouterr().out
    assert told.isascii() and is_plain(told.replace("\n", "")) and json.loads(told) == {text: text}


@each
def test_a_message_for_a_person(text: str):
    notice = Notice((Alarm(Problem(ProblemKind.ANOMALY, text, text), "then"),), ())
    told = message.body(notice)
    assert is_plain(told) and len(told) <= 10 * message.LINE_CHARACTERS
    sent = message.unaddressed(told)
    assert not set("<>&@") & set(sent)
    assert as_sent(sent) == told
    assert links(sent) == []


def test_a_long_message_is_cut():
    notice = Notice(
        tuple(Alarm(Problem(ProblemKind.ANOMALY, f"{n}", "x" * 10_000), "then") for n in range(200)), ()
    )
    lines = message.body(notice).splitlines()
    assert len(lines) == MOST_LINES + 1 and lines[-1].startswith("and 150 more")
    assert max(map(len, lines)) == message.LINE_CHARACTERS + 1


@each
def test_words_of_a_pipeline_file(text: str):
    assert yaml.safe_load(f"tables: {{{scalar(text)}: {scalar(text)}}}") == {"tables": {text: text}}
    assert scalar(text).isprintable()


@each
def test_a_proposed_table(text: str):
    """The statement is plain, the line of the pipeline file says the type and the fields as they are."""
    events = [{text or "x": text, "in": {text: text}, "many": [text]}] * 20
    proposal = propose(pipeline(), text, events, RULES)
    assert is_plain(proposal.statement.replace("\n", ""))
    proposal.statement.encode()
    [(kind, entry)] = yaml.safe_load(proposal.entry).items()
    assert kind == text
    table = entry if isinstance(entry, str) else entry["table"]
    assert len(table.split(".")) == 2 and all(table.split("."))


def test_a_column_has_a_name_that_utf8_holds():
    assert column_name(("a\ud83d", "b"), set()) == "a__b"
    assert column_name(("a\ud83d", "b"), {"a__b"}) == "a__b_2"


@pytest.mark.parametrize("way", ["print", "table"])
def test_a_terminal_of_another_encoding(way: str):
    """What it lacks is escaped, and the command ends as it should."""
    program = """
import sys
from sluice.cli import commands, output, app
def printing(way: str):
    output.show(output.table_of("日", ["本"], [["🙂"]])) if way == "table" else output.print_line("日本 🙂")
commands.commands.command()(printing)
app()
"""
    words = [sys.executable, "-c", program, "printing", way]
    ran = subprocess.run(words, capture_output=True, env={"PYTHONIOENCODING": "ascii"})
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"\\U0001f642" in ran.stdout


def test_a_cell_is_no_markup():
    assert "│ [bold]x[/] │" in shown(output.table_of("", ["a"], [["[bold]x[/]"]]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("offsets [13031, 13050): expected 3", "offsets [13031, 13050):…"),
        ("offsets [13031, 13050) expected", "offsets [13031, 13050)…"),
        ("offsets [13031, 13050), e", "offsets [13031, 13050),…"),
        ("offsets [13031, 13050):", "offsets [13031, 13050):"),
        ("a" * 30, "a" * 24 + "…"),
        (" " + "a" * 30, " " + "a" * 23 + "…"),
    ],
)
def test_a_long_text_ends_with_a_whole_word(text: str, shown: str):
    assert visible(text, 24) == shown
