"""Links of the documents lead somewhere, their pipeline files are read, their commands are taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pendulum
import pytest
import yaml
from typer.exceptions import TyperException

from local.documents.commands import parser
from local.documents.pipeline_file import keys
from sluice.cli.options import MODES, read_instant
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.slices import HOUR
from tests.support.documents import ROOT, Sample, anchors, commands, links, pages, prose, samples, spans

PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
KEYS = {key.name for key in keys(Pipeline)}
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M))
# What an example of a command stands for: A, PIPELINE, $from, …
PLACEHOLDER = re.compile(r"[A-Z]+|\$\w+|…")
BASE = """
kafka: [{cluster: dc1, bootstrap: "kafka:9092", topics: [events]}]
event: {type: {field: type}, time: {field: timestamp}}
lake: s3://events/landing
tables: {click: events.clicks}
"""
LANGUAGES = {"sh", "yaml", "json", "sql", "xml", "protobuf", "python", "text"}
NOW = pendulum.datetime(2026, 11, 20, 10, 30)


def wrong_links(name: str, text: str) -> Iterator[str]:
    for link in links(text):
        place, _, anchor = link.partition("#")
        path = (ROOT / name).parent.joinpath(place).resolve() if place else ROOT / name
        if not path.is_file():
            yield f"{link}: no such file"
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            yield f"{link}: no such heading"


ENVIRONMENT = {"SLUICE_VAR_MASK_KEY": "the key of a sample"}
"""Variables that samples name."""


def wrong_pipeline(sample: Sample, beside: Sequence[Sample], folder: Path) -> str:
    """Why the sample, a pipeline file or a part of one, cannot be read; empty where it can."""
    for other in beside:
        (folder / other.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / other.file).write_text(other.text)
    content = yaml.safe_load(sample.text)
    if not isinstance(content, dict) or not content.keys() <= KEYS:
        return f"{sample.text[:60]!r} is no part of a pipeline file"
    whole = content if content.keys() >= {"kafka", "event"} else {**yaml.safe_load(BASE), **content}
    (folder / "sample.yaml").write_text(yaml.safe_dump(whole) if whole is not content else sample.text)
    try:
        read(folder / "sample.yaml", ENVIRONMENT)
    except SluiceError as error:
        return str(error)
    return ""


def wrong_command(words: Sequence[str]) -> str:
    """Why `sluice WORDS` or `make WORDS` cannot be given; empty where it can, and for other programs."""
    program, rest = words[0].rpartition("/")[2], list(words[1:])
    if program == "make":
        unknown = [word for word in rest if "=" not in word and word not in TARGETS]
        return f"make has no {unknown}" if unknown else ""
    if program != "sluice" or not rest:
        return ""
    command = parser().commands.get(rest[0])
    if command is None:
        return f"there is no command {rest[0]}"
    try:
        return wrong_values(command.make_context(rest[0], rest[1:]).params)
    except TyperException as error:
        return error.format_message()


def wrong_values(given: dict[str, Any]) -> str:
    """What a command itself refuses of its arguments before it does anything."""
    if given.get("mode", "fill") not in (*MODES, "M"):
        return f"no mode {given['mode']}"
    for name in ("start", "to", "since"):
        value = given.get(name)
        if value is not None and not PLACEHOLDER.fullmatch(value):
            read_instant(value, NOW, HOUR)
    return ""


def wrong_mention(span: str) -> str:
    """Of a command in a sentence, which need not be whole: its name and its options."""
    words = span.split()
    if words[0] == "make" and re.fullmatch(r"[a-z-]+", " ".join(words[1:2])):
        return wrong_command(words[:2])
    if words[0] != "sluice" or len(words) == 1 or not re.fullmatch(r"[a-z]+", words[1]):
        return ""
    command = parser().commands.get(words[1])
    if command is None:
        return f"there is no command {words[1]}"
    options = {opt for one in command.params for opt in one.opts} | {"--help"}
    unknown = {word for word in words if word.startswith("--")} - options
    return f"sluice {words[1]} has no {sorted(unknown)}" if unknown else ""


def wrong_path(span: str) -> str:
    """A file of the repository that is named, from its root, from the library's or from the tests'."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+\.(py|sql|sh|yaml|toml)", span):
        return ""
    places = (ROOT, ROOT / "plugins/sluice", ROOT / "include/sql", ROOT / "tests")
    return "" if any((place / span).is_file() for place in places) else f"there is no file {span}"


SAMPLES = [(name, sample) for name, text in PAGES.items() for sample in samples(text)]
YAML = [(name, sample) for name, sample in SAMPLES if sample.language == "yaml"]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str):
    assert list(wrong_links(name, PAGES[name])) == []


@pytest.mark.parametrize(("name", "sample"), YAML, ids=lambda one: getattr(one, "section", one))
def test_a_pipeline_file_can_be_read(name: str, sample: Sample, tmp_path: Path):
    beside = [one for one in samples(PAGES[name]) if one.file and one.section == sample.section]
    assert wrong_pipeline(sample, beside, tmp_path) == ""


@pytest.mark.parametrize("name", PAGES)
def test_commands_can_be_given(name: str):
    blocks = [sample.text for sample in samples(PAGES[name]) if sample.language == "sh"]
    found = {" ".join(words): wrong_command(words) for text in blocks for words in commands(text)}
    found |= {span: wrong_mention(span) for span in spans(PAGES[name])}
    assert {command: why for command, why in found.items() if why} == {}


@pytest.mark.parametrize("name", PAGES)
def test_files_that_are_named_are_there(name: str):
    words = re.findall(r"[\w./-]+", " ".join([*spans(PAGES[name]), prose(PAGES[name])]))
    assert sorted({why for word in words if (why := wrong_path(word.rstrip(".")))}) == []


@pytest.mark.parametrize("name", PAGES)
def test_each_block_names_its_language(name: str):
    """Else the tests above would pass it by."""
    assert {sample.language for sample in samples(PAGES[name])} <= LANGUAGES
    assert re.findall(r"\n\n    \S.*", prose(PAGES[name])) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lookback: 2x\n", "expected a duration"),
        ("heel: 2d\n", "no part of a pipeline file"),
        ("clickhouse: {shards: [{name: s1}]}\n", "expected exactly one of"),
        ("- lookback\n", "no part of a pipeline file"),
    ],
)
def test_a_wrong_pipeline_file_is_found(text: str, why: str, tmp_path: Path):
    assert why in wrong_pipeline(Sample("", "yaml", text, ""), [], tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sluice pln adx --from A --to B", "no command pln"),
        ("sluice plan adx --frm A --to B", "No such option"),
        ("sluice accept adx bids", "Missing option"),
        ("sluice plan adx --from A --to B --mode rewind", "no mode rewind"),
        ("X=1 .venv/bin/sluice status adx more", "unexpected extra argument"),
        ("cat x | sluice publish adx - --bach 7", "No such option"),
        ("make dem", "make has no"),
        ("for n in 1; do make tset; done", "make has no"),
    ],
)
def test_a_wrong_command_is_found(text: str, why: str):
    assert why in " ".join(map(wrong_command, commands(text)))


def test_wrong_links_mentions_and_paths_are_found():
    text = "[a](nowhere.md) [b](README.md#nothing) [c](README.md#sluice) [d](https://x.y/z)"
    assert list(wrong_links("SECURITY.md", text)) == [
        "nowhere.md: no such file",
        "README.md#nothing: no such heading",
    ]
    wrong = [one for one in ("sluice plan", "sluice plan --x", "make tset", "make up") if wrong_mention(one)]
    assert wrong == ["sluice plan --x", "make tset"]
    assert wrong_path("cli/nothing.py") and not wrong_path("cli/plan.py") and not wrong_path("a.py")
