"""`sluice publish` as a process of its own, a log that somebody writes, and what the topic holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kafka import KafkaConsumer, TopicPartition

from local.leash import leashed

STOP_SECONDS = 90


@dataclass
class Rig:
    """One pipeline with one topic. `kill` is kill -9."""

    folder: Path
    bootstrap: str
    topic: str
    process: subprocess.Popen | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        pipeline = {
            "kafka": [{"cluster": "dc1", "bootstrap": self.bootstrap, "topics": [self.topic]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": f"file://{self.folder}/lake",
        }
        (self.folder / "adx.yaml").write_text(json.dumps(pipeline))

    def start(self, *arguments: str) -> subprocess.Popen:
        program = str(Path(sys.executable).with_name("sluice"))
        words = [program, "publish", "adx", *arguments, "--config", str(self.folder / "adx.yaml"), "--json"]
        with (self.folder / "err").open("ab") as err:
            self.process = subprocess.Popen(leashed(words), stdout=subprocess.PIPE, stderr=err)
        return self.process

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> dict:
        """The report after an orderly end. The command may still be starting: then it is asked again."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=STOP_SECONDS)
        assert self.process.returncode == 0, (self.folder / "err").read_text()
        return json.loads(out)

    def records(self) -> list[tuple[bytes, bytes]]:
        """(batch and line, event) of every record, in no order."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        places = [TopicPartition(self.topic, p) for p in consumer.partitions_for_topic(self.topic) or ()]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(places), []
        while any(consumer.position(place) < ends[place] for place in places):
            for polled in consumer.poll(timeout_ms=500).values():
                found += [(record.headers[0][1], record.value) for record in polled]
        consumer.close()
        return found


@dataclass
class Writer:
    """Appends numbered lines until it is stopped; renames or truncates the log now and then, once it may."""

    log: Path
    random: Random
    written: list[bytes] = field(default_factory=list)
    rotations: Counter = field(default_factory=Counter)
    may_rotate: bool = False

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            self._write()
            if self.may_rotate and self.random.random() < 0.01:
                self._rotate()
        self._write(1)  # the log has a last line, whose place is waited for

    def _write(self, least: int = 0) -> None:
        count = self.random.randrange(least, 30)
        lines = [b'{"type": "click", "n": %d}' % (len(self.written) + n) for n in range(count)]
        text = b"".join(line + b"\n" for line in lines)
        cut = self.random.randrange(len(text) + 1)
        with self.log.open("ab") as file:
            file.write(text[:cut])
            file.flush()
            file.write(text[cut:])
        self.written += lines

    def _rotate(self) -> None:
        """As logrotate does, `copytruncate` every second time; the newest is .1."""
        older = sorted(
            self.log.parent.glob(f"{self.log.name}.[0-9]*"), key=lambda path: -int(path.suffix[1:])
        )
        for path in older:
            path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))
        first = self.log.with_name(f"{self.log.name}.1")
        how = self.random.choice(["rename", "copytruncate"])
        if how == "rename":
            self.log.rename(first)
        else:
            first.write_bytes(self.log.read_bytes())
            with self.log.open("r+b") as file:
                file.truncate(0)
        self.rotations[how] += 1


def compare(written: Sequence[bytes], records: Sequence[tuple[bytes, bytes]]) -> str:
    """What is wrong with the topic, or nothing: every line once, but for copies that their headers tell."""
    once = dict(records)
    if len(set(records)) != len(once):
        return "one batch and line has two different events"
    if Counter(once.values()) != Counter(written):
        missing, more = Counter(written) - Counter(once.values()), Counter(once.values()) - Counter(written)
        return f"{missing.total()} lines are missing, {more.total()} are there twice with different headers"
    return ""
