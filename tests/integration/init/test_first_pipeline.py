"""docs/guide/first-pipeline.md: each block is run in a copy of the repository, and nothing else is typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.integration.landed import client_of
from tests.support.documents import ROOT, samples

pytestmark = pytest.mark.integration

PAGE = (ROOT / "docs" / "guide" / "first-pipeline.md").read_text(encoding="utf-8")
BLOCKS = [sample for sample in samples(PAGE) if sample.language == "sh"]
[PRINTED] = [sample.text for sample in samples(PAGE) if sample.language == "text"]
SECONDS = 180
DATABASES = ("shop", "baskets")
ANY_HOUR = r"\d{4}-\d\d-\d\dT\d\d:00Z"


class Newcomer:
    """A clone with the session's servers in place of those that `make up` starts."""

    def __init__(self, folder: Path, server, stack: dict[str, str]) -> None:
        self.folder = folder
        for name in ("plugins", "include", "spark_jobs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".deps").symlink_to(ROOT / ".deps")
        program = f"exec {sys.executable} -c 'from sluice.cli import app; app()' \"$@\""
        self._program(folder / ".venv" / "bin" / "sluice", program)
        self._program(folder / "started" / "make", 'test "$*" = up')
        (folder / "var").mkdir()
        (folder / "var" / "clickhouse-password").write_text(server.password)
        path = f"{folder / 'started'}{os.pathsep}{stack['PATH']}"
        own = {"PYTHONPATH": f"{folder / 'plugins'}{os.pathsep}{stack['PYTHONPATH']}", "PATH": path}
        self.environment = {**stack, **own, "SLUICE_CLICKHOUSE_PORT": str(server.port)}
        self.exports = ""

    def _program(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def type(self, text: str) -> str:
        ran = subprocess.run(
            ["bash", "-ec", self.exports + text], cwd=self.folder, env=self.environment, timeout=SECONDS,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
        if text.startswith("export "):
            self.exports += text
        return ran.stdout


@pytest.fixture
def newcomer(tmp_path: Path, clickhouse_server, stack_env):
    client = client_of(clickhouse_server)
    for database in DATABASES:
        client.run(f"DROP DATABASE IF EXISTS {database}")
    yield Newcomer(tmp_path, clickhouse_server, stack_env)
    for database in DATABASES:
        client.run(f"DROP DATABASE IF EXISTS {database}")


def next_commands(out: str) -> list[str]:
    return [line.strip() for line in out.partition("next:\n")[2].splitlines()]


@pytest.mark.long
def test_the_printed_commands_load_a_file_of_arrays(newcomer: Newcomer, clickhouse_server):
    """Arrays of up to four events, every other one backwards; two are of two hours."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
    events = [
        {
            "type": "order",
            "at": f"{first + timedelta(minutes=n + 2):%Y-%m-%dT%H:%M:%SZ}",
            "id": n,
            "tags": [f"t{n % 3}"],
        }
        for n in range(150)
    ]
    lines = [events[n : n + 4][:: 1 if n % 8 else -1] for n in range(0, 150, 4)]
    (newcomer.folder / "arrays.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    publish, *others = next_commands(newcomer.type("sluice init baskets --file arrays.ndjson --apply --yes"))
    shipped = newcomer.type(publish)
    assert re.search(r"^events: 38$", shipped, re.M) and re.search(r"^no_time: 0$", shipped, re.M)
    told = [newcomer.type(command) for command in others]
    assert "broken: 0" in told[-1]

    sql = "SELECT id, toUnixTimestamp(at), toString(tags), _row FROM baskets.order ORDER BY id"
    wanted = [
        (event["id"], int(datetime.fromisoformat(event["at"]).timestamp()), f"['t{event['id'] % 3}']", row)
        for line in lines
        for row, event in enumerate(line)
    ]
    assert client_of(clickhouse_server).rows(sql) == sorted(wanted)


@pytest.mark.long
def test_each_block(newcomer: Newcomer, clickhouse_server):
    began, printed = time.monotonic(), []
    for block in BLOCKS:
        if printed and block.section.startswith("5"):
            told = [newcomer.type(command) for command in printed]
            assert "broken: 0" in told[-1] and "rows_compared: " in told[-1]
            assert time.monotonic() - began < SECONDS
        out = newcomer.type(block.text)
        if "sluice init" in block.text:
            printed = next_commands(out)
            shown = re.escape(PRINTED.partition("next:\n")[2])
            pattern = re.sub(r"\d{4}\\-\d\d\\-\d\dT\d\d:00Z", lambda _: ANY_HOUR, shown)
            assert re.fullmatch(pattern, out.partition("next:\n")[2])
    assert "total:" in out and len(printed) == 3

    events = [json.loads(line) for line in (newcomer.folder / "orders.ndjson").read_text().splitlines()]
    sql = "SELECT id, total, toString(customer.country), toUnixTimestamp(at) FROM shop.order ORDER BY id"
    found = client_of(clickhouse_server).rows(sql)
    at = int(subprocess.check_output(["date", "+%s", "-d", events[0]["at"]]))
    assert found == [(n, Decimal(f"{n}.5"), "CH", at) for n in range(1, 1001)]
    assert [event["id"] for event in events] == list(range(1, 1001))
