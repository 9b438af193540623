"""The wide stack's settings and its runner, which starts again what ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from honcho.environ import parse_procfile

from local.cluster.secrets import NAMES, stored
from local.cluster.settings import PORTS, ClusterSettings
from local.environment import WrongSetting
from local.readiness import wait_until
from local.versions import ROOT

PROCFILE = ROOT / "local" / "Procfile.cluster"


def test_ports_are_moved_by_their_variables(tmp_path: Path):
    settings = ClusterSettings.read({"SLUICE_CLUSTER_HOME": str(tmp_path), "SLUICE_REDIS_PORT": "7"})
    assert (settings.port("REDIS"), settings.port("POSTGRES")) == (7, PORTS["SLUICE_POSTGRES_PORT"])
    assert settings.home == tmp_path
    with pytest.raises(WrongSetting, match="SLUICE_S3_PORT"):
        ClusterSettings.read({"SLUICE_S3_PORT": "x"})


def test_no_two_parts_share_a_port():
    ports = list(ClusterSettings.read({}).ports.values())
    assert len(set(ports)) == len(ports) == 13


def test_secrets_are_made_once_and_are_their_owners_alone(tmp_path: Path):
    made = stored(tmp_path / "new")
    assert made.keys() == {*NAMES, "fernet"} and len(set(made.values())) == 6
    assert stored(tmp_path / "new") == made
    assert stat.S_IMODE((tmp_path / "new" / "secrets.json").stat().st_mode) == 0o600


def test_no_secret_is_on_a_command_line():
    commands = " ".join(parse_procfile(PROCFILE.read_text()).processes.values())
    scripts = "".join((ROOT / "local" / "cluster" / name).read_text() for name in ("spark", "airflow"))
    assert "PASSWORD" not in commands + scripts and "SECRET" not in commands + scripts


@pytest.fixture
def runner(tmp_path: Path):
    """A runner of two parts, and its note; stopped whatever the test did."""
    (tmp_path / "Procfile").write_text("one: exec sleep 600\ntwo: exec sleep 600\n")
    options = ["--procfile", str(tmp_path / "Procfile"), "--ports", "1", "--patience", "3"]
    process = subprocess.Popen(
        [sys.executable, "-m", "local.runner", *options],
        cwd=ROOT,
        env={**os.environ, "SLUICE_HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    )
    yield process, tmp_path / "stack.json"
    process.kill()
    process.wait()
    for pid in sessions(tmp_path / "stack.json").values():
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)


def sessions(note: Path) -> dict[str, int]:
    return json.loads(note.read_text())["sessions"] if note.exists() else {}


def test_a_part_that_is_killed_is_started_again_and_the_others_go_on(runner):
    process, note = runner
    wait_until(lambda: len(sessions(note)) == 2, "both parts", 30)
    before = sessions(note)
    os.kill(before["one"], signal.SIGKILL)
    wait_until(lambda: sessions(note)["one"] != before["one"], "part one again", 30)
    assert sessions(note)["two"] == before["two"]
    last = sessions(note)
    process.terminate()
    assert process.wait(30) == 143  # 128 + SIGTERM, as honcho ends
    assert not any(Path(f"/proc/{pid}").exists() for pid in last.values())
