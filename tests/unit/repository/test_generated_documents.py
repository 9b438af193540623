"""Documents that are made from code are what it gives now, and what they say of it is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from benchmarks.report import INTRODUCTION, PAGE
from local.documents.commands import parser
from local.documents.generated import generated
from local.documents.pipeline_file import keys, sections
from sluice.config.event import TimeSource, TypeSource
from sluice.config.files import read
from sluice.config.pipeline import Cluster, Pipeline, Target
from sluice.errors import WrongPipeline

ROOT = Path(__file__).parents[3]
BASE = """
kafka: [{cluster: dc1, bootstrap: "kafka:9092", topics: [events]}]
event: {type: {field: type}, time: {field: timestamp}}
lake: s3://events/landing
tables: {click: events.clicks}
"""
# What has to stand beside a key for its section to be whole; the key's own example comes over it.
BESIDE = {
    "": BASE,
    "kafka[]": "{cluster: dc1, topics: [events], bootstrap: 'kafka:9092'}",
    "kafka[] exclude": "{cluster: dc1, topics: [clicks.*], bootstrap: 'kafka:9092'}",
    "kafka[] connection": "{cluster: dc1, topics: [events]}",
    "event": "{type: {field: type}, time: {field: timestamp}}",
    "event registry": "{type: {field: type}, time: {field: timestamp}, format: avro}",
    "event.rows": "{field: Records}",
    "event.time format": "{field: at}",
    "event.time zone": "{field: at}",
    "tables.<name>": "{table: events.clicks}",
    "tables.<name>.latest": "{table: shop.customer, key: [id]}",
    "counts[]": "{table: events.traffic}",
    "mask.<name> types": "{drop: true}",
    "rollups.<name>": "{from: events.clicks, sql: users.sql}",
    "clickhouse shard_by": "{shards: [{name: s1, connection: ch1}, {name: s2, connection: ch2}]}",
    "clickhouse.shards[]": "{name: s1, connection: ch1}",
    "clickhouse.shards[] replicas": "{name: s1}",
    "airflow deadline": "{on_failure: [{notifier: a.b.C}]}",
    "tables.<name>.checks.<name>": "{sql: total >= 0, on_fail: warn}",
    **{
        f"{place}[]{key}": beside
        for place in ("alarms.notify", "airflow.on_failure")
        for key, beside in {
            " notifier": "{}",
            " arguments": "{notifier: a.b.C}",
        }.items()
    },
}
EXAMPLES = [(place, model, key) for place, model in sections() for key in keys(model) if key.example]
UNTOLD = {(Pipeline, "name")} | {(Target, name) for name in ("types", "catch_all", "counted", "rollup")}


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.stem)
def test_a_document_is_what_its_source_gives(path: Path):
    renew = "`.venv/bin/python -m local.documents.generated` writes it"
    assert path.read_text(encoding="utf-8") == generated()[path], f"{path.relative_to(ROOT)}: {renew}"


def test_the_page_of_the_benchmarks_begins_with_its_introduction():
    """`make bench` writes the rest out of what it has measured."""
    assert PAGE.read_text(encoding="utf-8").startswith(INTRODUCTION.read_text(encoding="utf-8").strip())


@pytest.mark.parametrize(("place", "model", "key"), EXAMPLES, ids=lambda one: getattr(one, "name", str(one)))
def test_an_example_is_taken(place: str, model: type[BaseModel], key: Any, tmp_path: Path):
    """In its section, beside what the section needs."""
    (tmp_path / "users.sql").write_text("SELECT user FROM {source}")
    beside = yaml.safe_load(BESIDE.get(f"{place} {key.name}", BESIDE.get(place, "{}")))
    given = {**beside, key.name: yaml.safe_load(key.example)}
    if model is Pipeline:
        (tmp_path / "adx.yaml").write_text(yaml.safe_dump(given))
        assert read(tmp_path / "adx.yaml", {}).name == "adx"
    else:
        TypeAdapter(model).validate_python(given, context={"folder": tmp_path})


@pytest.mark.parametrize(("model", "field"), sorted(UNTOLD, key=str))
def test_a_field_without_a_text_is_no_key(model: type[BaseModel], field: str, tmp_path: Path):
    own = f"{field}: x\n" if model is Pipeline else ""
    inside = BASE.replace("events.clicks}", f"{{table: events.clicks, {field}: x}}}}")
    (tmp_path / "adx.yaml").write_text(BASE + own if own else inside)
    with pytest.raises(WrongPipeline, match=field if own else "expected only `table`, `columns`, `evolve`"):
        read(tmp_path / "adx.yaml", {})


def test_every_other_field_has_a_text():
    """A rollup's `select` is read from its file, which tests of rollups hold."""
    lacking = {
        (model, name)
        for _, model in sections()
        for name, field in model.model_fields.items()
        if (field.alias or name) not in {key.name for key in keys(model)}
    }
    assert {(m, name) for m, name in lacking if name != "select"} == UNTOLD
    assert {Cluster, TypeSource, TimeSource} <= {model for _, model in sections()}


def test_every_command_and_option_has_a_text():
    for command in parser().commands.values():
        assert command.help
        assert [one.name for one in command.params if not one.help] == []
