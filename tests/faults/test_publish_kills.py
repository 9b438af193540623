"""`sluice publish` is killed again and again, its broker dies or stands still: no line is lost.

A line may be in the topic twice, but then both have the same batch and line in their header.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest

from local import services
from local.readiness import wait_until
from tests.faults.fault_log import FaultLog
from tests.faults.publish_rig import Rig, Writer, compare

pytestmark = pytest.mark.faults

SHORT, LONG = 3, 40
VICTIM = "sluice publish"
ARRIVAL_SECONDS = 120


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.KafkaBroker]:
    """One that may be killed."""
    broker = services.kafka_broker(tmp_path_factory.mktemp("killed_kafka"))
    yield broker
    broker.kill()


@pytest.mark.long
def test_a_follower_that_is_killed_loses_nothing(
    broker: services.KafkaBroker, tmp_path: Path, name: str, seed: int, long_form: bool, fault_log: FaultLog
):
    """The log grows and is rotated all the time. In the middle the broker dies, too, and comes back."""
    random, log = Random(seed), tmp_path / "app.log"
    kills = LONG if long_form else SHORT
    rig = Rig(tmp_path, broker.bootstrap, name)
    state = tmp_path / "app.log.sluice.json"
    with Writer(log, random) as writer:
        for number in range(kills):
            goes_on(rig, log, state)
            writer.may_rotate = True  # what is rotated away before anybody has followed it is not looked for
            time.sleep(random.uniform(0, 0.7))  # a random moment, not a wait for anything
            if number == kills // 2:
                broker.kill()
                broker.start()
            rig.kill()
        goes_on(rig, log, state)
    wait_until(lambda: line_of(state) == lines_in(log), "the last line", ARRIVAL_SECONDS)
    report = rig.finish()
    records = rig.records()
    wrong = compare(writer.written, records)
    fault_log.add("kill", "while it follows a log", bool(wrong), victim=VICTIM, times=kills)
    assert wrong == ""
    assert (report["gaps"], report["unacknowledged"]) == (0, 0)
    print(f"{len(records):,} records of {len(writer.written):,} lines; {writer.rotations}")


def goes_on(rig: Rig, log: Path, state: Path) -> None:
    """Starts it, and waits until it has saved another place than it found."""
    before = state.read_bytes() if state.exists() else b""
    rig.start(str(log), "--follow")
    wait_until(lambda: state.exists() and state.read_bytes() != before, "a saved place", 60)


def line_of(state: Path) -> tuple[int, int]:
    place = json.loads(state.read_text())["place"]
    return place["inode"], place["offset"]


def lines_in(log: Path) -> tuple[int, int]:
    found = log.stat()
    return found.st_ino, found.st_size


def test_a_batch_that_is_killed_goes_on(
    broker: services.KafkaBroker, tmp_path: Path, name: str, seed: int, long_form: bool, fault_log: FaultLog
):
    random, path = Random(seed), tmp_path / "batch.ndjson"
    lines = [b'{"type": "click", "n": %d, "pad": "%s"}' % (n, b"x" * 200) for n in range(200_000)]
    path.write_bytes(b"\n".join(lines))
    rig, kills = Rig(tmp_path, broker.bootstrap, name), LONG // 4 if long_form else 2
    for _ in range(kills):
        process = rig.start(str(path))
        wait_until(lambda p=process: opened(p, path) is not None or p.poll() is not None, "its start", 60)
        time.sleep(random.uniform(0, 0.5))  # a random moment
        rig.kill()
    out, _ = rig.start(str(path)).communicate(timeout=STILL_SECONDS * 12)
    (report,) = json.loads(out)["batches"]
    wrong = compare(lines, rig.records())
    fault_log.add("kill", "while it ships a batch", bool(wrong), victim=VICTIM, times=kills)
    assert wrong == ""
    assert report["state"] in ("shipped", "shipped before")


STILL_SECONDS = 10
QUEUE_BYTES = (
    40 << 20
)  # what may be on its way: clients/kafka/producer.py says 32 MiB, and there are two chunks
MEMORY_BYTES = 160 << 20


@pytest.mark.long
def test_a_broker_that_stands_still_holds_the_reading_up(
    broker: services.KafkaBroker, tmp_path: Path, name: str, fault_log: FaultLog
):
    """The file waits, not the memory: what has been read is what the queue takes, and goes on afterwards."""
    path = tmp_path / "large.ndjson"
    line = b'{"type": "click", "n": %d, "pad": "' + b"x" * 400 + b'"}\n'
    with path.open("wb") as file:
        for n in range(500_000):
            file.write(line % n)
    rig = Rig(tmp_path, broker.bootstrap, name)
    process = rig.start(str(path))
    wait_until(lambda: opened(process, path) is not None, "its start", 60)
    idle = psutil.Process(process.pid).memory_info().rss
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        read = stands_still(process, path)
        peak = psutil.Process(process.pid).memory_info().rss
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=STILL_SECONDS * 20)
    report = json.loads(out)
    wrong = read > path.stat().st_size // 2 or report["acknowledged"] != 500_000
    fault_log.add("fault", "its broker stands still", wrong, victim=VICTIM)
    assert (report["acknowledged"], report["unacknowledged"]) == (500_000, 0)
    assert read < path.stat().st_size // 2
    assert peak - idle < MEMORY_BYTES
    print(f"{read >> 20} MiB read while the broker stood still, {(peak - idle) >> 20} MiB more memory")


def opened(process, path: Path) -> int | None:
    """How far the process has read the file, by its second opening; None before (the first is for the id)."""
    register = path.parent / "lake"
    if not any(register.rglob("_shipped/*/*/*.json")):
        return None
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        if descriptor.resolve() == path:
            info = Path(f"/proc/{process.pid}/fdinfo/{descriptor.name}").read_text()
            return int(info.split()[1])
    return None


def stands_still(process, path: Path) -> int:
    """How far it has read once it has not gone on for some seconds."""
    last, since, deadline = -1, time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < STILL_SECONDS / 2:
        assert time.monotonic() < deadline, "it goes on reading though nothing is acknowledged"
        if (now := opened(process, path)) != last:
            last, since = now, time.monotonic()
        time.sleep(0.1)
    return last
