"""Whatever name a pipeline file may have runs: each is refused in one line, or taken by all that uses it."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.clients.clickhouse.sql import identifier, table
from sluice.clients.clickhouse.tables import Column
from sluice.clients.lake import layout
from sluice.config.files import read
from sluice.config.mask import MaskRule
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WrongPipeline
from sluice.field_path import field, names_of, read_event, spellings
from sluice.flow.find.search_files import read_match
from sluice.flow.land.task.count_fields import FieldTexts
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import TIME, TYPE
from sluice.flow.land.task.type_folders import _verdict
from sluice.flow.load.casts.columns import fill
from sluice.mask.mask_rules import KeyedRule, MaskRules
from sluice.mask.unit_mask import DROP, EventMask, UnitMask
from sluice.runtime import deeper
from sluice.safe_text import line
from tests.support.hostile_texts import HALVES, TEXTS, is_plain
from tests.support.landing_world import record_table

SIGNS = st.sampled_from("ab.\\\"'`\0\n\t {}[]$%/é🙂\ud800\u2028*:,#_-")
NAMES = st.text(SIGNS, max_size=12) | st.text(max_size=20)
KNOWN = [
    *(text for text in TEXTS.values() if "${" not in text),
    *HALVES.values(),
    "event\\.dataset",
    'a"b.c',
    "a..b",
    ".",
    "a.b.c",
    "null",
    "_key",
    "*",
]
each_name = pytest.mark.parametrize("name", KNOWN, ids=ascii)


def pipeline(name: str, **changes: object) -> Pipeline | None:
    """The pipeline whose file has the name at the changed places; None where it is refused in one line."""
    spec = {
        "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
        "event": {"type": {"topic": True}, "time": {"record": True}},
        "lake": "file:///nowhere",
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ads.yaml"
        path.write_text(yaml.safe_dump({**spec, **changes}), errors="surrogatepass")
        try:
            return read(path)
        except WrongPipeline as error:
            told = line(str(error))
            assert is_plain(told) and len(told) < 1_000
            return None


def event_of(name: str, value: object) -> bytes:
    return json.dumps({name: value, "other": 1}).encode()


def check_fields(name: str) -> None:
    """As type and time, as what is counted by, as a column's field, and as what is found."""
    source = {"type": {"field": name}, "time": {"record": True}}
    spec = pipeline(name, event=source, tables={"x": {"table": "db.t", "columns": {"c": name}}})
    if spec is None:
        with pytest.raises((SluiceError, ValueError)):
            read_match(None, f"{name}=x")
        return
    text = event_of(name, "x")
    parser = Parser(spec.event)
    rows, rejected = parser.split(record_table([text, b'{"other": 2}']))
    assert [parser.types.names[code] for code in rows[TYPE].to_pylist()] == ["x"] and rejected.num_rows == 1
    assert field(read_event(text), names_of(name)) == "x"
    timed = {"type": {"topic": True}, "time": {"field": name, "format": "epoch_ms"}}
    rows, _ = Parser(pipeline(name, event=timed).event).split(
        record_table([event_of(name, 1_795_169_700_000)])
    )
    assert rows[TIME].to_pylist() == [1_795_169_700_000]
    assert FieldTexts([name]).read([text]) == [[b'"x"']]
    fill((Column("c", "String"), Column(name, "Nullable(UInt8)")), spec.tables["x"].columns).first(
        "column"
    ).encode()


def check_mask(name: str) -> None:
    spec = pipeline(name, mask={name: "drop"})
    if spec is None or name in ("_key", "_headers", "_rejected"):
        return
    for keys in spellings(names_of(name)):
        event: object = "p1"
        for key in reversed(keys):
            event = {key: event}
        text = json.dumps(event).encode()
        mask = EventMask({names_of(name): DROP})
        with deeper():
            assert b"p1" not in mask.masked(text) and b"p1" not in mask.masked_slowly(text)
            assert b"p1" not in UnitMask(MaskRules({name: KeyedRule(spec.mask[name])}, {})).event_of("any")(
                text
            )


def check_type(name: str) -> None:
    spec = pipeline(name, tables={name: "db.t"}, mask={"a": {"drop": True, "types": [name]}})
    if spec is None:
        return
    assert spec.routed(spec.targets[0], [name]) or name == "*"
    if name and _verdict(name) is None:
        folder = layout.event_folder(name, "2026-11-20T10")
        assert folder.count("/") == 3
        parser = Parser(pipeline(name, event={"type": {"field": "t"}, "time": {"record": True}}).event)
        rows, _ = parser.split(record_table([event_of("t", name)]))
        assert [parser.types.names[code] for code in rows[TYPE].to_pylist()] == [name]
    assert MaskRule(drop=True, types=(name,)).applies(name)


def check_table(name: str) -> None:
    spec = pipeline(name, tables={"x": f"db.{name}"})
    if spec is None:
        return
    [target] = spec.targets
    assert (target.database, target.name) == ("db", name)
    assert table(target.table) == identifier("db", name)
    key = layout.lease(target.table)
    assert key.count("/") == 1 and len(key.encode()) < 255


CHECKS = (check_fields, check_mask, check_type, check_table)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@each_name
def test_a_known_name(check, name: str):
    check(name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_any_name(check):
    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(NAMES)
    @example("event\\.dataset")
    def hold(name: str) -> None:
        if "${" not in name:  # a variable of the environment
            check(name)

    hold()


def test_what_is_refused_says_why(tmp_path: Path):
    path = tmp_path / "ads.yaml"
    path.write_text(
        "kafka: [{cluster: a, bootstrap: 'x:1', topics: [t]}]\nlake: file:///x\n"
        "event: {type: {field: 'event\\.dataset'}, time: {record: true}}\n"
    )
    with pytest.raises(WrongPipeline, match="a dot needs no backslash: 'event.dataset'"):
        read(path)
    path.write_text('name: "\\ud800"\n')
    with pytest.raises(WrongPipeline, match="half a surrogate pair"):
        read(path)
