"""A server that runs and no longer answers is killed by the stack's runner, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.readiness import broker_ready, free_port, wait_until
from local.stack_log import started_again
from local.versions import ROOT

pytestmark = pytest.mark.integration

SECONDS = 120
SILENT = 6
"""How many seconds: ten times as long is what a loaded machine may take to start the broker again."""


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A runner of the embedded broker: the broker's port, and the runner's log."""
    port, log = free_port(2), tmp_path / "stack.log"
    broker = f"exec {sys.executable} -m local.kafka_broker --data {tmp_path / 'kafka'} --port {port}"
    (tmp_path / "Procfile").write_text(f"kafka: {broker}\n")
    words = [
        "--procfile",
        str(tmp_path / "Procfile"),
        "--ports",
        "1",
        "--patience",
        "3",
        "--silent",
        str(SILENT),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "local.runner", *words, "--silent", str(SILENT)],
            cwd=ROOT,
            env={**os.environ, "SLUICE_HOME": str(tmp_path), "SLUICE_KAFKA_PORT": str(port)},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: broker_ready(port), "the broker", SECONDS)
        yield port, log
    finally:
        process.terminate()
        process.wait(SECONDS)


def session(log: Path) -> int:
    found: int = json.loads((log.parent / "stack.json").read_text())["sessions"]["kafka"]
    return found


@pytest.mark.long
def test_a_server_that_stands_still(runner):
    port, log = runner
    before = session(log)
    os.killpg(before, signal.SIGSTOP)
    wait_until(lambda: "kafka is started again" in log.read_text(), "its end", SECONDS)
    wait_until(lambda: broker_ready(port), "the broker", SECONDS)
    assert session(log) != before
    assert f"kafka has not answered for {SILENT} s: it is killed" in log.read_text()
    assert [line.split(", last")[0] for line in started_again(log.read_text().splitlines())] == [
        "kafka was started again once"
    ]
