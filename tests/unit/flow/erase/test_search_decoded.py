"""Messages that another schema reads since: what the search finds in the lake, its remake leaves out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.config.event import Event
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.state.manifests import read_manifests
from tests.support.erased import ask, entry
from tests.support.landing_world import World, event, hours, pipeline
from tests.unit.flow.erase.test_search import UNIT, searched

STAMP = event()[1]
FIELDS = ("type", "at", "who")
AT = "2026-01-01T00:01:00Z"
ALICE = "alice@example.com"


def protobuf(texts: tuple[str, ...]) -> bytes:
    parts = [(number << 3 | 2, len(text), text.encode()) for number, text in enumerate(texts, 1)]
    return b"".join(bytes([tag, length]) + text for tag, length, text in parts)


def proto(*fields: str) -> str:
    body = "".join(f"string {name} = {FIELDS.index(name) + 1};" for name in fields)
    return f'syntax = "proto3"; message Click {{ {body} }}'


def avsc(*fields: str) -> str:
    named = [{"name": name, "type": "string"} for name in fields]
    return json.dumps({"type": "record", "name": "Click", "fields": named})


def avro(texts: tuple[str, ...]) -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema(json.loads(avsc(*FIELDS)))
    fastavro.schemaless_writer(out, schema, dict(zip(FIELDS, texts, strict=True)))
    return out.getvalue()


def spec(folder: Path, kind: str, schema: str, name: str) -> Pipeline:
    (folder / name).write_text(schema)
    file: Any = {"file": name, "message": "Click"} if kind == "protobuf" else name
    form = {"type": {"field": "type"}, "time": {"field": "at"}, "format": {kind: file}}
    return pipeline().model_copy(update={"event": Event.model_validate(form, context={"folder": folder})})


def bytes_of(lake: FolderLake, manifest: Manifest) -> list[tuple[int, bytes]]:
    """Offset and message of every row of the unit."""
    found = []
    for file in (*manifest.files, *manifest.rejected):
        with lake.local(file.key) as path:
            rows = pq.read_table(path).to_pylist()
        found += [(row["_offset"], row.get("_raw") or row["_payload"]) for row in rows]
    return sorted(found)


@pytest.mark.parametrize(
    ("kind", "before", "after", "write"),
    [
        ("protobuf", proto("type", "at", "who"), proto("type", "at"), protobuf),
        ("avro", avsc("type", "at", "who"), avsc("type", "at"), avro),
        ("avro", avsc("type", "at", "who"), avsc("type", "at", "who", "more"), avro),
    ],
)
@pytest.mark.parametrize(("person", "gone"), [(ALICE, {0, 2}), ("ann", {0})])
def test_a_message_of_another_schema(
    kind: str, before: str, after: str, write: Any, person: str, gone: set[int], tmp_path: Path
):
    """It is rejected now, or an event without the field, and the lake keeps its own bytes either way."""
    old, new = (spec(tmp_path, kind, text, f"{n}.{kind}") for n, text in enumerate((before, after)))
    texts = [("click", AT, person), ("click", AT, "bob@example.com"), ("click", "no time at all", ALICE)]
    messages = [write(one) for one in texts]
    world, lake = (
        World({("dc1", "bids"): [[(one, STAMP) for one in messages]]}),
        FolderLake(tmp_path / "demo"),
    )
    world.resolve(old, lake, hours(1))
    world.land(old, lake, hours(1))
    assert bytes_of(lake, manifest_of(lake)) == [*enumerate(messages)]
    asked = entry(f"who={person}")
    ask(lake, asked)
    [found] = searched(lake, f"who={person}", asked, new).found.values()
    assert (found.rows, found.rejected) == (1, len(gone) - 1)
    left = [(offset, message) for offset, message in enumerate(messages) if offset not in gone]
    for token in ("erasure-0", "again"):
        world.land(new, lake, hours(1), "remake", token)
        assert bytes_of(lake, manifest_of(lake)) == left
        assert manifest_of(lake).erased == len(gone)


def manifest_of(lake: FolderLake) -> Manifest:
    return read_manifests(lake, [UNIT])[UNIT]
