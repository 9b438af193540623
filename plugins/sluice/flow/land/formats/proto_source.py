"""Compiles .proto files: the pipeline's own, and the texts of a registry that has no descriptors.

A registry's text is written by whoever may register a schema. It is compiled in a process of its own, which
has bounds, in a folder that holds the text and what the registry says it refers to; it imports these,
Protobuf's own files and those that registries have built in, and nothing else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from sluice.errors import WrongUse
from sluice.flow.land.reject_reasons import BadSchema
from sluice.named_file import MOST_OF_SCHEMA, read_named

CPU_SECONDS, SECONDS = 20, 60
"""For a compilation, at most: of a processor, and in all."""
_MEMORY, _OUTPUT = 2 << 30, 64 << 20
_MOST_SAID = 300
_COMPILER = f"""
import resource, sys
from importlib import resources
for bound, most in (("CPU", {CPU_SECONDS}), ("AS", {_MEMORY}), ("FSIZE", {_OUTPUT}), ("CORE", 0)):
    resource.setrlimit(getattr(resource, "RLIMIT_" + bound), (most, most))
from grpc_tools import protoc
own = str(resources.files("grpc_tools") / "_proto")
sys.exit(protoc.main(["protoc", *sys.argv[1:], "-I" + own]))
"""
_IMPORT = re.compile(rb"""\bimport\s+(?:public\s+|weak\s+)?["']([^"'\n]+)["']""")
_OPTIONS = "confluent/meta.proto"
_CONFLUENT = {
    _OPTIONS: """
syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}
_GOOGLE_TYPE = re.compile(r"google/type/(\w+\.proto)", re.ASCII)
_PART = re.compile(r"(?!\.)[\w.+ -]{1,200}", re.ASCII)
_MOST_IN_NAME = 500


def compiled(file: Path) -> bytes:
    """Returns the descriptors of a .proto file and of all that it imports, from its own folder.

    Raises OSError as `read_named`, and BadSchema with the compiler's words.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-proto-") as folder:
        _copy_sources(file, Path(folder, "sources"))
        return _compile(Path(folder), file.name)


def compiled_texts(text: str, references: Mapping[str, str]) -> Sequence[FileDescriptorProto]:
    """Returns the files of a registry's schema, itself last; `references` are the texts that it may import,
    by name. Raises BadSchema, and WrongUse on a machine that has no compiler."""
    try:
        import grpc_tools  # type: ignore[import-untyped]  # noqa: F401
    except ModuleNotFoundError:
        raise WrongUse(
            "the schema registry has .proto texts and no descriptors, and Python has no grpcio-tools here to "
            "compile them: install it where the tasks run"
        ) from None
    main = "schema.proto"
    while main in references:
        main = f"_{main}"
    with tempfile.TemporaryDirectory(prefix="sluice-proto-") as folder:
        try:
            for name, content in {**references, main: text}.items():
                _write(Path(folder, "sources"), name, content.encode())
        except (OSError, UnicodeEncodeError) as error:  # of two names one may be the other's folder
            raise BadSchema(f"its files cannot be laid out: {type(error).__name__}") from error
        return FileDescriptorSet.FromString(_compile(Path(folder), main)).file


def compiled_built_ins(names: Iterable[str]) -> Sequence[FileDescriptorProto]:
    """Returns those of the files that registries have built in, and what they import, without options, which
    decode nothing. Raises as `compiled_texts`."""
    found = [name for name in names if name != _OPTIONS and _built_in(name) is not None]
    text = "".join(['syntax = "proto3";', *(f'import "{name}";' for name in found)])
    return compiled_texts(text, {})[:-1] if found else []


def _built_in(name: str) -> str | None:
    """Returns the text of a file that a registry has without being given it. Source: KNOWN_DEPENDENCIES of
    Confluent's ProtobufSchema.java."""
    if found := _GOOGLE_TYPE.fullmatch(name):
        with suppress(ModuleNotFoundError, FileNotFoundError):
            return (resources.files("google.type") / found[1]).read_text()
    return _CONFLUENT.get(name)


def _write(folder: Path, name: str, content: bytes) -> None:
    """Raises BadSchema for a name that could lie elsewhere, OSError."""
    if len(name) > _MOST_IN_NAME or not all(map(_PART.fullmatch, name.split("/"))):
        raise BadSchema(f"it refers to a file of the name {name[:80]!r}")
    copy = folder / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content)


def _compile(folder: Path, name: str) -> bytes:
    """Compiles the file of that name in `sources` of the folder. Raises BadSchema."""
    _add_built_ins(folder / "sources")
    out = folder / "descriptors"
    options = ["-Isources", "--include_imports", f"--descriptor_set_out={out}", str(Path("sources", name))]
    try:
        compilation = subprocess.run(
            [sys.executable, "-c", _COMPILER, *options],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BadSchema(f"it does not compile within {SECONDS} s") from error
    if compilation.returncode:
        said = " ".join(compilation.stderr.split())[:_MOST_SAID]
        raise BadSchema(said or f"the compiler ends with {compilation.returncode}: is it too large?")
    return out.read_bytes()


def _add_built_ins(folder: Path) -> None:
    due = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    while due:
        for found in _IMPORT.finditer(due.pop()):
            name = found[1].decode(errors="replace")
            text = _built_in(name)
            if text is not None and not Path(folder, name).exists():
                _write(folder, name, text.encode())
                due.append(text.encode())


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
