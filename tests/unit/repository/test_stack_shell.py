"""`make shell`: the stack's environment, on a terminal and with commands from standard input."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from local import members
from local.versions import ROOT

PROGRAMS = Path(sys.executable).parent
SHELL = [sys.executable, "-m", "local.shell"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user whose own start file changes PATH and prompt, and whose stack has its data here."""
    (tmp_path / ".bashrc").write_text("PATH=/usr/bin:/bin\nPS1='mine> '\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SLUICE"))}
    return kept | {"HOME": str(tmp_path), "SLUICE_HOME": str(tmp_path / "var"), "TERM": "dumb"}


def typed(environ: dict[str, str], commands: str) -> list[str]:
    ran = subprocess.run(SHELL, cwd=ROOT, env=environ, input=commands, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_the_commands_are_those_of_this_folder(environ: dict[str, str]):
    asked = "command -v airflow; command -v sluice; pwd; echo $AIRFLOW_HOME; echo $AIRFLOW_CONN_KAFKA_DEFAULT"
    airflow, sluice, folder, home, kafka = typed(environ, asked)
    assert (airflow, sluice, folder) == (f"{PROGRAMS}/airflow", f"{PROGRAMS}/sluice", str(ROOT))
    assert home == f"{environ['SLUICE_HOME']}/airflow"
    assert json.loads(kafka)["extra"] == {"bootstrap.servers": "127.0.0.1:9092"}


def test_the_ports_are_those_of_the_stack_that_runs(environ: dict[str, str], tmp_path: Path):
    (tmp_path / "var").mkdir()
    marked = environ | {members.MARK: str(tmp_path / "var")}
    with subprocess.Popen(["sleep", "600"], env=marked) as runner:
        note = {"runner": runner.pid, "sessions": {}, "ports": [19092, 19093, 18123, 18080]}
        (tmp_path / "var" / "stack.json").write_text(json.dumps(note))
        asked = "echo $SLUICE_KAFKA_PORT $SLUICE_CLICKHOUSE_PORT $SLUICE_AIRFLOW_PORT"
        assert typed(environ, asked) == ["19092 18123 18080"]
        runner.kill()
    assert typed(environ, asked) == ["9092 8123 8080"]


def test_on_a_terminal_the_prompt_says_where_one_is(environ: dict[str, str]):
    """Also after the user's own start file. The password is on no command line."""
    side, other = pty.openpty()
    with subprocess.Popen(
        SHELL, cwd=ROOT, env=environ, stdin=other, stdout=other, stderr=other, start_new_session=True
    ) as process:
        os.close(other)
        seen = read_until(side, "(sluice) mine> ")
        assert "the stack does not run: make up starts it" in seen
        os.write(side, b"command -v airflow; exit\n")
        seen = read_until(side, f"{PROGRAMS}/airflow")
        line = Path(f"/proc/{process.pid}/cmdline")
        password = Path(environ["SLUICE_HOME"], "clickhouse-password").read_text()
        assert not line.exists() or password not in line.read_text()
        read_until(side, None)
        assert process.wait(30) == 0
    os.close(side)


def read_until(side: int, text: str | None) -> str:
    """What comes until `text` has come, or until the end."""
    seen = ""
    while text is None or text not in seen:
        try:
            more = os.read(side, 4096).decode()
        except OSError:
            more = ""
        if not more:
            assert text is None, seen
            return seen
        seen += more
    return seen
