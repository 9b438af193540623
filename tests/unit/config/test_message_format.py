"""`event.rows`, `event.format` and `event.registry` in the pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sluice.config.event import Event
from sluice.config.files import read
from sluice.errors import WrongPipeline

FORMS = "expected json, avro, protobuf, {avro: FILE} or {protobuf: {file: FILE, message: NAME}}"
REGISTRY = {"registry": {"connection": "schemas"}}


def event(folder: Path, **more: object) -> Event:
    """As the pipeline file in `folder` says it."""
    spec = {
        "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t"]}],
        "event": {"type": {"topic": True}, "time": {"record": True}, **more},
        "lake": "file:///lake",
    }
    (folder / "p.yaml").write_text(yaml.safe_dump(spec))
    return read(folder / "p.yaml", {"SLUICE_VAR_SCHEMAS": "schemas"}).event


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    for name in ("click.avsc", "click.proto"):
        (tmp_path / "schemas" / name).write_text("")
    return tmp_path


def test_json_and_one_row_are_the_default(folder):
    found = event(folder)
    assert (found.format.kind, found.format.decoded, found.arrays, found.registry) == (
        "json",
        False,
        False,
        None,
    )
    assert event(folder, format="json", rows="array").arrays


def test_a_schema_file_lies_beside_the_pipeline_file(folder):
    avro = event(folder, format={"avro": "${SLUICE_VAR_SCHEMAS}/click.avsc"}).format
    assert (avro.kind, avro.schema_file) == ("avro", folder / "schemas/click.avsc")
    form = {"file": str(folder / "schemas/click.proto"), "message": "adx.Click"}
    proto = event(folder, format={"protobuf": form}).format
    assert (proto.kind, proto.schema_file, proto.message) == (
        "protobuf",
        folder / "schemas/click.proto",
        "adx.Click",
    )


@pytest.mark.parametrize("kind", ["json", "avro", "protobuf"])
def test_a_registry_needs_no_file(folder, kind):
    found = event(folder, format=kind, **REGISTRY)
    assert (found.format.kind, found.format.schema_file, found.registry.connection) == (kind, None, "schemas")


DELIMITED = "`rows: delimited` is for `format: {protobuf: {file: FILE, message: NAME}}` without a registry"


@pytest.mark.parametrize(
    ("more", "key", "expected"),
    [
        ({"format": "xml"}, "event.format", FORMS),
        ({"format": {"avro": "a", "protobuf": "b"}}, "event.format", FORMS),
        ({"format": {"avro": {"file": "a", "more": "b"}}}, "event.format", FORMS),
        ({"format": {"protobuf": "schemas/click.proto"}}, "event.format", FORMS),
        ({"format": {"protobuf": {"file": "schemas/click.proto"}}}, "event.format", FORMS),
        ({"format": {"avro": "gone.avsc"}}, "event.format", "there is no schema file /.*/gone.avsc"),
        ({"format": {"avro": "x" * 300}}, "event.format", "there is no schema file /.*/xxx"),
        ({"format": "avro"}, "event", "`format: avro` needs a schema file or a `registry`"),
        ({"type": {"schema": True}}, "event", "`type: {schema: true}` is for Avro and Protobuf"),
        ({"format": "avro", "rows": "array", **REGISTRY}, "event", "`rows` is for messages in JSON"),
        ({"rows": "delimited"}, "event", DELIMITED),
        ({"rows": "delimited", "format": "protobuf", **REGISTRY}, "event", DELIMITED),
        ({"rows": "delimited", "format": "avro", **REGISTRY}, "event", DELIMITED),
        ({"rows": "many"}, "event.rows", "expected one, array, lines, delimited or"),
    ],
)
def test_a_mistake_is_told_with_its_key(folder, more, key, expected):
    with pytest.raises(WrongPipeline) as caught:
        event(folder, **more)
    assert caught.value.key == key
    assert caught.match(expected.replace("{", r"\{").replace("|", r"\|"))
