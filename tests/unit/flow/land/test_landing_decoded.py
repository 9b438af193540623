"""Messages that are not JSON, from end to end: the event as JSON beside the message's own bytes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.config.event import DECODED, Event
from sluice.errors import RegistryRefused, RegistryUnavailable, SchemaRefused
from sluice.flow.land.formats.decoders import FORMATS
from sluice.manifest import FieldSeen, TypeFields
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support.landed_contents import contents
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.support.registry_server import serve

BIDS = ("dc1", "bids")
STAMP = event()[1]
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "type", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "id", "type": "bytes"},
    ],
}


def avro(kind: str | None, minute: int, ident: bytes) -> bytes:
    out = io.BytesIO()
    record = {"type": kind, "at": START.add(minutes=minute), "id": ident}
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), record)
    return out.getvalue()


MESSAGES = [
    avro("click", 5, b"\xff"),
    avro(None, 6, b"a"),
    avro("bid", 65, b"b"),
    b"\x02",
    None,
    avro("click", 7, b""),
]


@pytest.fixture
def spec(tmp_path: Path):
    (tmp_path / "click.avsc").write_text(json.dumps(SCHEMA))
    form = {"type": {"field": "type"}, "time": {"field": "at"}, "format": {"avro": "click.avsc"}}
    return pipeline().model_copy(update={"event": Event.model_validate(form, context={"folder": tmp_path})})


def landed(tmp_path: Path, spec, **options):
    lake = FolderLake(tmp_path / "demo")
    world = World({BIDS: [[(message, STAMP) for message in MESSAGES]]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1), **options)
    [manifest] = read_manifests(lake, [Unit(Slice(START, spec.slice), "dc1")]).values()
    return lake, manifest


def rows(lake, files) -> list[dict]:
    found: list[dict] = []
    for file in files:
        with lake.local(file.key) as path:
            found += pq.read_table(path).to_pylist()
    return found


@pytest.mark.parametrize("options", [{}, {"rows_per_read": 1}])
def test_the_event_is_json_and_the_message_stays_as_it_came(tmp_path, spec, options):
    lake, manifest = landed(tmp_path, spec, **options)
    found = {(r["_offset"], r["_type"], r["_payload"], r["_raw"]) for r in rows(lake, manifest.files)}
    assert found == {
        (0, "click", '{"type":"click","at":"2026-01-01T00:05:00Z","id":"/w=="}', MESSAGES[0]),
        (2, "bid", '{"type":"bid","at":"2026-01-01T01:05:00Z","id":"Yg=="}', MESSAGES[2]),
        (5, "click", '{"type":"click","at":"2026-01-01T00:07:00Z","id":""}', MESSAGES[5]),
    }
    assert {file.hour[-2:] for file in manifest.files if file.type == "bid"} == {"01"}
    text = [FieldSeen(2, {"string": 2}, 2 * place) for place in range(3)]
    assert manifest.fields_of("click") == TypeFields(
        "click", 2, True, {"at": text[1], "id": text[2], "type": text[0]}
    )
    rejected = [(r["_offset"], r["_reason"], r["_payload"]) for r in rows(lake, manifest.rejected)]
    assert sorted(rejected) == [
        (1, "no type", MESSAGES[1]),
        (3, "not Avro of its schema", b"\x02"),
        (4, "no value", None),
    ]
    assert (manifest.read, manifest.parsed, manifest.rows, manifest.landed, manifest.kept) == (
        6,
        3,
        None,
        3,
        3,
    )


def test_a_schema_that_cannot_be_used_lands_nothing(tmp_path, spec):
    spec.event.format.schema_file.write_text("{}")
    with pytest.raises(SchemaRefused):
        landed(tmp_path, spec)
    assert not list(FolderLake(tmp_path / "demo").list("_slices/"))


@pytest.mark.parametrize(
    ("state", "error"),
    [({"status": 503}, RegistryUnavailable), ({"base": "/api"}, RegistryRefused)],
    ids=["no answer", "another path"],
)
def test_a_registry_that_does_not_answer_as_one_lands_nothing_until_it_does(
    tmp_path, monkeypatch, state, error
):
    monkeypatch.setattr("sluice.flow.land.formats.registry.WAITS", (0.0,))
    form = {"type": {"field": "type"}, "time": {"field": "at"}, "format": "avro"}
    event = Event.model_validate({**form, "registry": {"connection": "schemas"}})
    spec = pipeline().model_copy(update={"event": event})
    with serve() as registry:
        monkeypatch.setenv("AIRFLOW_CONN_SCHEMAS", registry.url)
        monkeypatch.setitem(globals(), "MESSAGES", [b"\0\0\0\0\x05" + MESSAGES[0], b"\0\0\0\0\x06x", b"{}"])
        registry.avro(5, SCHEMA)
        for name, value in state.items():
            setattr(registry, name, value)
        with pytest.raises(error):
            landed(tmp_path, spec)
        lake = FolderLake(tmp_path / "demo")
        assert [item.key for item in lake.list("") if not item.key.startswith("_boundaries/")] == []
        registry.status, registry.base = None, ""
        lake, manifest = landed(tmp_path, spec)
    assert [row["_payload"] for row in rows(lake, manifest.files)] == [
        '{"type":"click","at":"2026-01-01T00:05:00Z","id":"/w=="}'
    ]
    assert manifest.rejected_records == {"no schema id in front": 1, "unknown schema id": 1}


def test_every_format_that_a_pipeline_file_may_name_has_its_decoder():
    assert set(FORMATS) == set(DECODED)


def test_another_schema_brings_in_what_the_wrong_one_rejected(tmp_path: Path, spec):
    """A remake reads the messages' own bytes; the oracle is a first landing."""
    (tmp_path / "wrong.avsc").write_text(json.dumps({**SCHEMA, "fields": SCHEMA["fields"][1:]}))
    form = {"type": {"field": "type"}, "time": {"field": "at"}, "format": {"avro": "wrong.avsc"}}
    wrong = spec.model_copy(update={"event": Event.model_validate(form, context={"folder": tmp_path})})
    plain, units = pipeline(), [Unit(Slice(START, spec.slice), "dc1")]
    lake, _ = landed(tmp_path / "remade", wrong)
    world = World({BIDS: [[(message, STAMP) for message in MESSAGES]]})
    for number, after in enumerate((spec, plain, spec)):
        world.land(after, lake, hours(1), "remake", f"{number}")
        fresh, _ = landed(tmp_path / f"{number}", after)
        assert contents(lake, units) == contents(fresh, units)
    [(rows, manifest)] = contents(lake, units).values()
    assert (manifest.landed, manifest.kept, len(rows)) == (3, 3, 6)


def test_a_reland_decodes_by_the_schema_that_the_hour_landed_by(tmp_path: Path, spec):
    """The file has the fields in another order since: each message would be another event."""
    lake, _ = landed(tmp_path / "relanded", spec)
    units = [Unit(Slice(START, spec.slice), "dc1")]
    before = contents(lake, units)
    moved = [SCHEMA["fields"][number] for number in (0, 2, 1)]
    spec.event.format.schema_file.write_text(json.dumps({**SCHEMA, "fields": moved}))
    world = World({BIDS: [[(message, STAMP) for message in MESSAGES]]})
    for now in (spec, pipeline()):
        world.land(now, lake, hours(1), "reland", str(now.event.format.kind), accept_loss=False)
        assert contents(lake, units) == before
    fresh, _ = landed(tmp_path / "fresh", spec)
    assert contents(fresh, units) != before
