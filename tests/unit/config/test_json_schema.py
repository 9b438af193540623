"""The JSON Schema takes every pipeline file of the project and of its documents, and marks mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from sluice.config.mistakes import keys
from sluice.config.pipeline import Pipeline
from tests.support.documents import ROOT, pages, samples

SCHEMA = json.loads((ROOT / "include/pipelines/pipeline.schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)
BASE = {
    "kafka": [{"cluster": "dc1", "bootstrap": "kafka:9092", "topics": ["events"]}],
    "event": {"type": {"field": "type"}, "time": {"field": "at"}},
    "lake": "s3://events/landing",
}


DEEPER = ("", ".click", ".shards", ".leese", ".e.r", ".payloads")  # where within the value


class _Loader(yaml.SafeLoader):
    """As an editor reads YAML: an instant is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def content_of(text: str) -> Any:
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader


def written() -> Iterator[Any]:
    """(name, content) of every pipeline file, or part of one."""
    known = {key.name for key in keys(Pipeline)}
    for path in pages():
        for number, sample in enumerate(samples(path.read_text())):
            content = content_of(sample.text) if sample.language == "yaml" else None
            if isinstance(content, dict) and content.keys() <= known:
                yield pytest.param({**BASE, **content}, id=f"{path.relative_to(ROOT)}-{number}")
    for key in keys(Pipeline):
        if key.example:
            yield pytest.param({**BASE, key.name: content_of(key.example)}, id=key.name)
    whole = content_of((ROOT / "include/pipelines/adx.yaml").read_text())
    yield pytest.param(whole, id="adx")


@pytest.mark.parametrize("content", written())
def test_what_is_right_is_taken(content: dict[str, Any]):
    assert [error.message for error in VALID.iter_errors(content)] == []


def test_it_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("slices", "1h"),
        ("slice", "7x"),
        ("max_types", "many"),
        ("max_record", "64 MB"),
        ("on_expired", "ignore"),
        ("kafka", "dc1"),
        ("kafka.0.topics", "events"),
        ("kafka.0.topic", ["events"]),
        ("kafka.0.cluster", "a b"),
        ("event.rows", "many"),
        ("event.format", "jsn"),
        ("event.format", {"avro": {"files": "a"}}),
        ("event.time", {"feild": "at"}),
        ("tables", {"click": {"tabel": "e.clicks"}}),
        ("clickhouse", {"leese": "1m"}),
        ("clickhouse", {"shards": {"s1": "ch1"}}),
        ("rollups", {"e.r": {"from": "e.clicks"}}),
        ("page", {"payloads": "visible"}),
    ],
)
def test_a_mistake_is_marked_where_it_is(place: str, value: Any):
    content = deepcopy(BASE)
    *way, last = place.split(".")
    inner: Any = content
    for part in way:
        inner = inner[int(part) if part.isdigit() else part]
    inner[last] = value
    [error] = VALID.iter_errors(content)
    assert ".".join(map(str, error.path)) in (".".join(way), *(f"{place}{deeper}" for deeper in DEEPER))


@pytest.mark.parametrize("key", ["kafka", "event", "lake"])
def test_what_is_missing_is_marked(key: str):
    content = {name: value for name, value in BASE.items() if name != key}
    assert [error.message for error in VALID.iter_errors(content)] == [f"'{key}' is a required property"]


@pytest.mark.parametrize("value", ["${TYPES}", "${TYPES:-500}", 500])
def test_a_variable_may_stand_for_a_number(value: str | int):
    assert VALID.is_valid({**BASE, "max_types": value})
