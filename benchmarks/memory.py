"""Processor seconds and the highest memory of a program and everything that it starts, by kind of process."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil

_SAMPLE_SECONDS = 0.25
KINDS = ("sluice", "spark driver", "spark jvm", "spark workers", "kafka", "clickhouse")
_ALONE = ("spark jvm", "kafka", "clickhouse")  # one process each, which shares no pages worth the name


@dataclass(frozen=True)
class Used:
    """`peak` is resident memory in MB, of each kind its own highest; `total` the highest sum at one moment.

    `idle` is the sum before the start; `cpu` is in seconds. Of a page that Python's processes share, as
    forked workers do, each has its part (Linux' proportional set size), so that it counts once.
    """

    seconds: float
    idle: float
    total: float
    peak: Mapping[str, float]
    cpu: Mapping[str, float]

    @property
    def beyond_idle(self) -> float:
        return self.total - self.idle


@dataclass
class Watch:
    """Samples `root` and its descendants, and the `servers` (kind by pid), while the `with` lasts."""

    root: int
    servers: Mapping[int, str] = field(default_factory=dict)

    def __enter__(self) -> Watch:
        self._peak = dict.fromkeys(KINDS, 0.0)
        self._cpu: dict[tuple[str, int], float] = {}
        self._over = threading.Event()
        self._total = 0.0
        self._idle = self._sample(only_servers=True)
        self._before = dict(self._cpu)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.monotonic() - self._started
        self._over.set()
        self._thread.join()
        self._sample()
        cpu = dict.fromkeys(KINDS, 0.0)
        for (kind, pid), used in self._cpu.items():
            cpu[kind] += used - self._before.get((kind, pid), 0.0)
        self.used = Used(seconds, self._idle, self._total, self._peak, cpu)

    def _run(self) -> None:
        while not self._over.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self, only_servers: bool = False) -> float:
        memory = dict.fromkeys(KINDS, 0.0)
        for kind, process in self._processes(only_servers):
            try:
                memory[kind] += _resident(kind, process) / 1e6
                times = process.cpu_times()
                self._cpu[kind, process.pid] = times.user + times.system
            except psutil.Error:
                continue  # it has ended since it was listed
        self._peak = {kind: max(self._peak[kind], memory[kind]) for kind in KINDS}
        self._total = max(self._total, sum(memory.values()))
        return sum(memory.values())

    def _processes(self, only_servers: bool) -> list[tuple[str, psutil.Process]]:
        found = [(kind, psutil.Process(pid)) for pid, kind in self.servers.items()]
        if only_servers:
            return found
        try:
            root = psutil.Process(self.root)
            mine = [root, *root.children(recursive=True)]
        except psutil.Error:
            return found
        return found + [(kind_of(p), p) for p in mine if p.pid not in self.servers]


def _resident(kind: str, process: psutil.Process) -> int:
    """Bytes. To add up shares the system walks all pages, which takes milliseconds of a large process."""
    return process.memory_info().rss if kind in _ALONE else process.memory_full_info().pss


def kind_of(process: psutil.Process) -> str:
    try:
        if process.name() == "java":
            return "spark jvm"
        words = " ".join(process.cmdline())
    except psutil.Error:
        return "sluice"
    if "pyspark.daemon" in words or "worker_daemon" in words:
        return "spark workers"
    return "spark driver" if "spark_jobs" in words else "sluice"
