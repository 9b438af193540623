"""Protobuf's binary encoding, by Google's own library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, Room, Size, bytes_within
from sluice.flow.land.formats.json_text import json_text
from sluice.flow.land.formats.protobuf_sizes import Field, SchemaSizes, count
from sluice.flow.land.reject_reasons import BadSchema, Rejected
from sluice.named_file import MOST_OF_SCHEMA, read_named

NOT_PROTOBUF = "not Protobuf of its message"

_MODULES = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_WELL_KNOWN = {
    module.DESCRIPTOR.name: FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in _MODULES
}
_COMPILE_SECONDS = 60
_IMPORT = re.compile(rb"""\bimport\s+(?:public\s+|weak\s+)?["']([^"'\n]+)["']""")
_AS_JSON = ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue")
_WRAPPERS = frozenset(wrappers_pb2.DESCRIPTOR.message_types_by_name)
_PACKAGE = "google.protobuf."


def compiled(file: Path) -> bytes:
    """Returns the descriptors of a .proto file and of all that it imports, from its own folder.

    Raises OSError as `read_named`, and BadSchema with the compiler's words.
    """
    # The workers do without it.
    from grpc_tools import protoc  # type: ignore[import-untyped]  # only its name is used

    with tempfile.TemporaryDirectory(prefix="sluice-proto-") as folder:
        sources, out = Path(folder, "sources"), Path(folder, "descriptors")
        _copy_sources(file, sources)
        include = ["-Isources", "--include_imports", f"--descriptor_set_out={out}"]
        options = [*include, str(Path("sources", file.name))]
        compilation = subprocess.run(
            [sys.executable, "-m", protoc.__name__, *options],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=_COMPILE_SECONDS,
        )
        if compilation.returncode:
            raise BadSchema(" ".join(compilation.stderr.split()))
        return out.read_bytes()


def _copy_sources(file: Path, folder: Path) -> None:
    """Copies a .proto file and those of its folder that it imports: the compiler opens none of these."""
    due, copied, room = [file.name], set[str](), MOST_OF_SCHEMA
    while due:
        name = due.pop()
        source = Path(file.parent, name)
        if name in copied or ".." in Path(name).parts or (copied and not os.path.lexists(source)):
            continue  # the compiler has it, or says that nobody has
        copied.add(name)
        content = read_named(source, room)
        room -= len(content)
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        due += [found[1].decode(errors="replace") for found in _IMPORT.finditer(content)]


def message_type(descriptors: bytes, name: str) -> type[Message]:
    """Returns the class of the message `name` (with its package) in compiled descriptors. Raises
    BadSchema."""
    return _class_of(_pool(FileDescriptorSet.FromString(descriptors).file), name)


class MessageFile:
    """The messages of the last of `files`, each of which comes after those it imports. Raises BadSchema."""

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self._file, self._pool = files[-1], _pool(files)

    def message_at(self, path: Sequence[int]) -> type[Message]:
        """Returns the class at `path`, indexes of messages within messages. Raises BadSchema."""
        try:
            message, name = self._file.message_type[path[0]], self._file.package
            name = f"{name}.{message.name}".lstrip(".")
            for index in path[1:]:
                message = message.nested_type[index]
                name = f"{name}.{message.name}"
        except IndexError as error:
            raise BadSchema(f"it has no message at {list(path)}") from error
        return _class_of(self._pool, name)


class MessageDecoder:
    """Makes messages of one type into JSON, each of which becomes at most `bound`."""

    def __init__(self, kind: type[Message], bound: Size = BOUND, sizes: SchemaSizes | None = None) -> None:
        """`sizes` are those of other types of its pool. Raises BadSchema."""
        sizes = sizes or SchemaSizes()
        self.kind, self._bound = kind, bound
        self._sizes = sizes.of(kind.DESCRIPTOR)
        self._short = bytes_within(bound, self._sizes.own, sizes.byte)

    def __call__(self, content: bytes) -> bytes:
        """Raises Rejected."""
        try:
            if len(content) > self._short:
                count(content, self._sizes, Room(self._bound))
            return json_text(self._read(content))
        except (ValueError, IndexError):
            raise Rejected(NOT_PROTOBUF) from None
        except RecursionError:
            raise Rejected(reject_reasons.NESTED_TOO_DEEP) from None

    def _read(self, content: bytes) -> Any:
        """Raises Rejected, RecursionError."""
        try:
            message = self.kind.FromString(content)
            if not self.kind.IsInitialized(message):
                raise Rejected(NOT_PROTOBUF)
            return _event(message)
        except (Rejected, RecursionError, MemoryError):
            raise
        except Exception:  # any: what a library makes of any bytes is one record's verdict, not the hour's
            raise Rejected(NOT_PROTOBUF) from None


def _pool(files: Sequence[FileDescriptorProto]) -> DescriptorPool:
    """Returns a pool of its own: two schemas may say different things of one name. The well-known types are
    the library's, which knows how to show those only."""
    pool = DescriptorPool()
    try:
        for known in _WELL_KNOWN.values():
            pool.Add(known)
        for file in files:
            if file.name not in _WELL_KNOWN:
                pool.Add(file)
            elif not _fields(file) <= _fields(_WELL_KNOWN[file.name]):
                raise BadSchema(f"its {file.name} is another than Protobuf's")
    except TypeError as error:
        raise BadSchema(" ".join(str(error).split())) from error
    return pool


def _fields(file: FileDescriptorProto) -> set[tuple[str, str, int, int]]:
    messages = file.message_type
    return {(kind.name, part.name, part.number, part.type) for kind in messages for part in kind.field}


def _class_of(pool: DescriptorPool, name: str) -> type[Message]:
    try:
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        raise BadSchema(f"it has no message {name}, named with its package") from error
    except RecursionError:
        raise BadSchema("its types are nested too deeply") from None


def _event(message: Message) -> Any:
    """Returns the event, with names as in the .proto file. A field with presence is left out when it is
    absent; others have their value, 0 and the empty ones included, as the message does not hold those.

    A message's own attributes are its fields, whatever their names: what it can do is asked of its class.
    """
    kind = type(message)
    full_name = kind.DESCRIPTOR.full_name
    if full_name.startswith(_PACKAGE):
        name = full_name.removeprefix(_PACKAGE)
        if name in _AS_JSON:
            return json_format.MessageToDict(message)
        if name in _WRAPPERS:
            wrapped = kind.DESCRIPTOR.fields_by_name["value"]
            return _value(wrapped, getattr(message, wrapped.name))
    return {
        field.name: _value(field, getattr(message, field.name))
        for field in kind.DESCRIPTOR.fields
        if not field.has_presence or kind.HasField(message, field.name)
    }


def _value(field: Field, value: Any) -> Any:
    if not field.is_repeated:
        return _one(field)(value)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        inner = _one(entry.fields_by_name["value"])
        return {_key(key): inner(item) for key, item in value.items()}
    return [*map(_one(field), value)]


def _one(field: Field) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _event
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else number
    return _same


def _same(value: Any) -> Any:
    return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
