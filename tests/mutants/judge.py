"""Judges one mutant: a fork of this process imports the mutated source in place of the file and runs pytest.

Nothing is written into the source tree but compiled modules. What the tests import and the room cannot reach
is imported here once, before the forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutants.imports import untouched
from tests.mutants.rooms import PACKAGE, ROOT, Room

MEMORY = 4 << 30  # bytes
WALL = 600  # seconds for a mutant that sleeps; one that loops is ended by its seconds of the processor
KILLED, SURVIVED = "killed", "survived"
_NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception)
_OWN = (PACKAGE, "tests", "local", "conftest", "test_", "__main__")


@dataclass(frozen=True)
class Verdict:
    """`by` is the test that failed, or that ran when time or memory was over; empty: the import failed.
    `seconds` are the processor's: how busy the machine is does not matter."""

    outcome: str
    by: str
    seconds: float


class _Mutated(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, room: Room, source: str) -> None:
        self._room, self._source = room, source

    def find_spec(self, name: str, path=None, target: ModuleType | None = None):
        if name != self._room.module:
            return None
        loader = _Mutated(name, str(self._room.path), self._source)
        return importlib.util.spec_from_file_location(name, self._room.path, loader=loader)


class _Reporter:
    """Says which test runs, in a file that outlives the process; tests that killed before go first.

    Of the room's folder only its own files are looked at, and the first failure ends the process: pytest's
    own ways take longer than most tests.
    """

    def __init__(self, room: Room, said: Path, first: Sequence[str]) -> None:
        self._said, self._first = said, {nodeid: number for number, nodeid in enumerate(first)}
        self._files = {str(ROOT / test) for test in room.tests}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool:
        return collection_path.suffix == ".py" and str(collection_path) not in self._files

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo) -> None:
        if call.excinfo and not issubclass(call.excinfo.type, _NO_FAILURES):
            os._exit(1)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._first.get(item.nodeid, len(self._first)))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._said.write_text(nodeid)


def warm(room: Room) -> float:
    """Imports what the room's tests need and the room cannot reach; seconds that the tests take unchanged.

    Raises AssertionError when they fail unchanged.
    """
    sys.dont_write_bytecode = False
    for name in [name for name in sys.modules if _within(name, PACKAGE)]:
        del sys.modules[name]  # the room before could not reach it: this one may
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder, "modules")

        def run(said: Path) -> int:
            code = _pytest(room, said, ())
            names.write_text(json.dumps({name: _file(module) for name, module in sys.modules.items()}))
            return code

        verdict = _forked(run, WALL)
        assert verdict.outcome == SURVIVED, f"{room.at}: {verdict.by or 'its tests'} fails without any mutant"
        loaded: dict[str, str] = json.loads(names.read_text())
    own = {name: Path(file) for name, file in loaded.items() if _within(name, PACKAGE)}
    foreign = [name for name in loaded if not name.startswith(_OWN)]
    for name in [*foreign, *untouched(room.module, own)]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # a fork that collects garbage would copy all of it
    return verdict.seconds


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or ""


def judge(room: Room, source: str, limit: float, first: Sequence[str]) -> Verdict:
    """The verdict over the room with this source; after `limit` seconds of the processor it is killed."""

    def run(said: Path) -> int:
        sys.meta_path.insert(0, _Finder(room, source))
        return _pytest(room, said, first)

    return _forked(run, limit)


def _pytest(room: Room, said: Path, first: Sequence[str]) -> int:
    # How busy the machine is must not kill: neither a deadline nor a health check.
    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )
    settings.load_profile("mutants")
    options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--basetemp", f"{said}.tmp"]
    return int(pytest.main([*options, *room.tests], plugins=[_Reporter(room, said, first)]))


def _forked(run: Callable[[Path], int], limit: float) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        said = Path(folder, "said")
        child = os.fork()
        if not child:
            _child(run, said, limit)
        code, seconds = _wait(child)
        by = said.read_text() if said.exists() else ""
    return Verdict(KILLED, by, seconds) if code else Verdict(SURVIVED, "", seconds)


def _child(run: Callable[[Path], int], said: Path, limit: float) -> None:
    code = 70
    try:
        gc.disable()
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
        os.chdir(ROOT)
        output = os.open(f"{said}.out", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        code = run(said)
    finally:
        os._exit(code)


def _wait(child: int) -> tuple[int, float]:
    """Exit code and seconds of the processor; whatever the child began is ended."""
    watched = os.pidfd_open(child)
    try:
        over = not select.select([watched], [], [], WALL)[0]
    finally:
        os.close(watched)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    return 1 if over else os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
