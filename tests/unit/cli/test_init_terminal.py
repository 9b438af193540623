"""`sluice init` as somebody types it: the questions on a real terminal, and none without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.long_form import per_commit

EVENT = {"type": "order", "at": "2026-11-20T10:00:00Z", "seen_at": "2026-11-20T10:00:01Z", "id": 1}
PROGRAM = [sys.executable, "-c", "from sluice.cli import app; app()", "init"]
SECONDS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.ndjson").write_text("".join(json.dumps(EVENT) + "\n" for _ in range(50)))
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "AIRFLOW_CONN_CLICKHOUSE_DEFAULT": "http://127.0.0.1:1", "TERM": "dumb"}


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._side, other = pty.openpty()
        self._process = subprocess.Popen(
            [*PROGRAM, *words], cwd=folder, env=environment(), stdin=other, stdout=other, stderr=other,
            start_new_session=True,
        )  # fmt: skip
        os.close(other)
        self.seen, self._mark = "", 0

    def until(self, text: str) -> None:
        """Reads on until `text` has come after what was waited for before."""
        while (found := self.seen.find(text, self._mark)) < 0:
            assert self._read(), self.seen
        self._mark = found + len(text)

    def _read(self) -> bool:
        """Whether more has come; the other side is closed where not."""
        assert select.select([self._side], [], [], SECONDS)[0], self.seen
        try:
            more = os.read(self._side, 4096).decode()
        except OSError:
            return False
        self.seen += more
        return bool(more)

    def type(self, text: str) -> None:
        os.write(self._side, text.encode())

    def end(self) -> int:
        while self._read():
            pass
        os.close(self._side)
        return self._process.wait(SECONDS)

    def interrupt(self) -> None:
        """Interrupts it, and ends a read that may begin right after Python has noted the signal."""
        self._process.send_signal(signal.SIGINT)
        self.type("\n")


def test_six_questions_and_their_defaults(folder: Path):
    terminal = Terminal(folder, "--file", "shop.ndjson", "--into", "p")
    for question, answer in (
        ("name of the pipeline [shop]: ", "web\n"),
        ("field that says an event's type (-: each topic is a type) [type]: ", "\n"),
        ("field that says its time, or seen_at (-: the record's own) [at]: ", "seen_at\n"),
        ("database of the tables [web]: ", "\n"),
        ("fields that no event lacks, such as id,total (-: any may be missing, so its column is Nullable; "
         "*: all that no sampled event lacks) [-]: ", "at\n"),
        ("the lake: file://folder or s3://bucket/prefix [${SLUICE_LAKE:-file://${SLUICE_HOME:-var}/lake}]: ",
         "s3://b/p\n"),
    ):  # fmt: skip
        terminal.until(question)
        terminal.type(answer)
    assert terminal.end() == 0
    assert terminal.seen.count("]: ") == 6
    content = yaml.safe_load((folder / "p" / "web.yaml").read_text())
    assert content["event"]["time"] == {"field": "seen_at", "format": "iso8601"}
    assert content["lake"] == "s3://b/p" and content["tables"]["order"] == "web.order"
    assert content["kafka"][0]["topics"] == ["web"]


def test_an_interruption_leaves_nothing(folder: Path):
    terminal = Terminal(folder, "--file", "shop.ndjson", "--into", "p")
    terminal.until("]: ")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "interrupted" in terminal.seen and not (folder / "p").exists()


@pytest.mark.parametrize("words", per_commit([["--yes", "--file", "shop.ndjson"], ["--file", "-"]]))
def test_without_a_terminal_nothing_is_asked(words: list[str], folder: Path):
    with (folder / "shop.ndjson").open("rb") as events:
        ran = subprocess.run(
            [*PROGRAM, "shop", *words, "--into", "p", "--json"], cwd=folder, env=environment(),
            stdin=events, capture_output=True, timeout=SECONDS, check=True,
        )  # fmt: skip
    told = json.loads(ran.stdout)
    assert told["files"] == ["p/shop.yaml", "p/shop.sql"] and len(told["commands"]) == 3
    assert ran.stderr == b""
    assert (folder / "p" / "shop.sql").read_text().count("CREATE TABLE") == 2
    again = subprocess.run(
        [*PROGRAM, "shop", *words, "--into", "p"], cwd=folder, env=environment(), capture_output=True,
        timeout=SECONDS, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert again.returncode == 2 and "there already; `--force` overwrites" in again.stderr


def test_nothing_to_sample(folder: Path):
    ran = subprocess.run(
        [*PROGRAM, "shop"], cwd=folder, env=environment(), capture_output=True, timeout=SECONDS, text=True
    )
    assert ran.returncode == 2 and "name what to sample: `--topic T`, or `--file F`" in ran.stderr
