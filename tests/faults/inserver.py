"""A ClickHouse server that is killed at its n-th file operation, and the load that it is killed in."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from local import services

SOURCE = Path(__file__).with_name("shim.c")
_CONTROL = struct.Struct("4q")
BEFORE, AFTER = 0, 1
NEVER = 0


def compiled(folder: Path) -> Path:
    """The shim, built by the machine's C compiler. Skips the test when there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("killing the server at file operations takes a C compiler (cc), and there is none")
    library = folder / "shim.so"
    command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run([*command, "-ldl"], check=True)
    return library


@dataclass(frozen=True)
class Operation:
    """The `number`-th counted file operation since the shim was armed."""

    number: int
    kind: str
    path: str


@dataclass
class Shimmed:
    """A server whose file operations below its store are counted while the shim is armed."""

    server: services.ClickHouseServer
    control: mmap.mmap
    trace: Path
    environment: dict[str, str]

    def start(self) -> None:
        self._write(armed=0, at=NEVER, phase=BEFORE)
        with mock.patch.dict(os.environ, self.environment):
            self.server.start()

    @contextmanager
    def armed(self, at: int, phase: int = BEFORE) -> Iterator[None]:
        """Counts from here on, and kills the server before or after its operation `at`."""
        self.trace.write_bytes(b"")
        self._write(armed=1, at=at, phase=phase)
        try:
            yield
        finally:
            self._write(armed=0, at=NEVER, phase=BEFORE)

    @property
    def dead(self) -> bool:
        process = self.server.process
        return process is not None and process.poll() is not None

    def operations(self) -> list[Operation]:
        lines = [line.split(" ", 2) for line in self.trace.read_text().splitlines()]
        return sorted((Operation(int(n), kind, path) for n, kind, path in lines), key=lambda o: o.number)

    def _write(self, armed: int, at: int, phase: int) -> None:
        # Armed last, so that no operation is counted against an old target.
        self.control[:] = _CONTROL.pack(0, at, phase, 0)
        self.control[:8] = struct.pack("q", armed)


@contextmanager
def shimmed(folder: Path) -> Iterator[Shimmed]:
    """A running server in `folder` with the shim in it, not armed."""
    library, control = compiled(folder), folder / "control"
    control.write_bytes(b"\0" * _CONTROL.size)
    data, trace = (folder / "server").resolve(), folder / "trace"
    trace.touch()
    with control.open("r+b") as file, mmap.mmap(file.fileno(), _CONTROL.size) as memory:
        environment = {
            "LD_PRELOAD": str(library),
            "SHIM_FOLDER": str(data / "store"),
            "SHIM_CONTROL": str(control),
            "SHIM_TRACE": str(trace),
        }
        with mock.patch.dict(os.environ, environment):
            server = services.clickhouse_server(data)
        try:
            yield Shimmed(server, memory, trace, environment)
        finally:
            server.kill()
