"""What a pipeline file or its folder names is a file of a bounded size, and its opening never waits."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from sluice.config import files
from sluice.config.event import Event
from sluice.errors import SchemaRefused, SluiceError, WrongPipeline
from sluice.flow.land.formats import proto_source, protobuf
from sluice.flow.land.task.decode import schema_of
from sluice.named_file import MOST_BYTES, read_named, read_named_text
from sluice.runtime import PROJECT

PIPELINE = """
kafka: [{cluster: dc1, bootstrap: "b:1", topics: [events]}]
event: {type: {field: type}, time: {field: at}}
lake: file:///srv/lake
tables: {click: demo.clicks}
"""
MESSAGE = 'syntax = "proto3"; message A { int64 n = 1; }'


def strange(path: Path, kind: str) -> None:
    match kind:
        case "a device":
            path.symlink_to("/dev/zero")
        case "a pipe":
            os.mkfifo(path)
        case "a folder":
            path.mkdir()
        case "a long file":
            with path.open("wb") as file:
                file.truncate(MOST_BYTES * 64)
        case "nothing":
            path.symlink_to(path.with_name("gone"))


STRANGE = ("a device", "a pipe", "a folder", "a long file", "nothing")
each_kind = pytest.mark.parametrize("kind", STRANGE)
REASONS = {"nothing": "No such file", "a long file": "it has more than"}


def reason(kind: str) -> str:
    return REASONS.get(kind, f"it is {kind}, not a file")


@each_kind
def test_only_a_regular_file_of_bounded_size_is_read(kind: str, tmp_path: Path) -> None:
    strange(tmp_path / "x", kind)
    with pytest.raises(OSError, match=reason(kind) if kind != "nothing" else "No such file"):
        read_named(tmp_path / "x")


def test_bytes_up_to_the_bound(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xffa" * (MOST_BYTES // 2))
    assert read_named(tmp_path / "x") == b"\xffa" * (MOST_BYTES // 2)
    with pytest.raises(OSError, match="it is no text in UTF-8"):
        read_named_text(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"a" * (MOST_BYTES + 1))
    with pytest.raises(OSError, match="it has more than 1 MiB"):
        read_named(tmp_path / "x")


@each_kind
def test_a_strange_pipeline_file_hides_no_other(kind: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    (tmp_path / "sound.yaml").write_text(PIPELINE)
    strange(tmp_path / "odd.yaml", kind)
    assert [pipeline.name for pipeline in files.sound_pipelines()] == ["sound"]
    with pytest.raises(WrongPipeline, match=rf"odd\.yaml: \(file\): cannot be read: {reason(kind)}"):
        files.read(tmp_path / "odd.yaml", {})


@pytest.mark.parametrize("kind", [kind for kind in STRANGE if kind != "nothing"])
def test_strange_defaults_are_one_line(kind: str, tmp_path: Path) -> None:
    (tmp_path / "sound.yaml").write_text(PIPELINE)
    strange(tmp_path / "_defaults.yaml", kind)
    with pytest.raises(WrongPipeline, match=rf"_defaults\.yaml: \(file\): cannot be read: {reason(kind)}"):
        files.read(tmp_path / "sound.yaml", {})


@each_kind
def test_a_strange_select_is_one_line(kind: str, tmp_path: Path) -> None:
    strange(tmp_path / "users.sql", kind)
    rollups = "rollups: {demo.users: {from: demo.clicks, sql: users.sql}}\n"
    (tmp_path / "p.yaml").write_text(PIPELINE + rollups)
    with pytest.raises(
        WrongPipeline, match=rf"p\.yaml:6:\d+: rollups.* cannot be read: {reason(kind)}"
    ) as caught:
        files.read(tmp_path / "p.yaml", {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.avsc", "a.proto"])
@each_kind
def test_a_strange_schema_is_one_line(kind: str, name: str, tmp_path: Path) -> None:
    """A pipeline without one is refused; one that becomes strange after that is refused where it is read."""
    strange(tmp_path / name, kind)
    schema = "avro: a.avsc" if name == "a.avsc" else "protobuf: {file: a.proto, message: A}"
    text = PIPELINE.replace("event: {", f"event: {{format: {{{schema}}}, ")
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(SluiceError) as caught:
        schema_of(files.read(tmp_path / "p.yaml", {}).event)
    expected = reason(kind) if kind == "a long file" else "is not a regular file"
    assert expected in str(caught.value) and name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.avsc", "a.proto"])
@pytest.mark.parametrize("kind", ["a device", "a pipe", "a folder"])
def test_a_schema_that_was_exchanged_since_is_not_waited_for(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(MESSAGE)
    schema = {"avro": name} if name == "a.avsc" else {"protobuf": {"file": name, "message": "A"}}
    settings = {"type": {"field": "t"}, "time": {"field": "at"}, "format": schema}
    event = Event.model_validate(settings, context={"folder": tmp_path})
    (tmp_path / name).unlink()
    strange(tmp_path / name, kind)
    with pytest.raises(SchemaRefused, match=rf"{name}.*{reason(kind)}"):
        schema_of(event)


@pytest.mark.parametrize("kind", ["a device", "a pipe", "a folder", "a long file"])
@pytest.mark.parametrize(
    "statement", ['import "b/c.proto";', "import public\n'b/c.proto' ;", 'import weak "b/c.proto";']
)
def test_a_strange_import_is_refused_and_never_opened_by_the_compiler(
    kind: str, statement: str, tmp_path: Path
) -> None:
    (tmp_path / "a.proto").write_text(f'syntax = "proto3";\n{statement}\nmessage A {{}}')
    (tmp_path / "b").mkdir()
    strange(tmp_path / "b/c.proto", kind)
    with pytest.raises(OSError, match=reason(kind)) as caught:
        proto_source.compiled(tmp_path / "a.proto")
    assert str(caught.value.filename).endswith("b/c.proto")


def test_imports_of_imports_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    head = 'syntax = "proto3";\nimport "google/protobuf/timestamp.proto";\n'
    (tmp_path / "a.proto").write_text(head + 'import "b/c.proto";\nmessage A { C c = 1; }')
    (tmp_path / "b/c.proto").write_text(head + 'import "d.proto";\nmessage C { D d = 1; }')
    (tmp_path / "d.proto").write_text(head + "message D { google.protobuf.Timestamp at = 1; }")
    kind = protobuf.message_type(proto_source.compiled(tmp_path / "a.proto"), "A")
    assert kind(c={"d": {"at": {"seconds": 7}}}).c.d.at.seconds == 7


# Rooms in which a pipeline file, or a file beside it, is opened; and what they open by other names.
ROOMS = ("config", "flow/land/formats", "flow/land/task/decode.py", "init", "state", "clients/kafka")
OWN = {"init/init.py": "writes"}


def test_no_room_opens_a_file_in_another_way() -> None:
    package = PROJECT / "plugins/sluice"
    found = {
        str(path.relative_to(package))
        for room in ROOMS
        for path in ([package / room] if room.endswith(".py") else (package / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) in ("read_text", "read_bytes", "open")
    }
    assert found - {"flow/land/formats/proto_source.py"} == set(OWN)
