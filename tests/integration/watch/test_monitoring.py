"""Prometheus' own check of the alert rules."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from local.versions import ROOT

pytestmark = pytest.mark.integration

ALERTS = ROOT / "monitoring" / "alerts.yaml"
PROMTOOL = ROOT / ".deps" / "promtool"


def promtool(rules: Path) -> subprocess.CompletedProcess[str]:
    """With the program that local/test_tools.sh brings, or the one on the path."""
    program = PROMTOOL if PROMTOOL.exists() else shutil.which("promtool")
    assert program is not None, "no promtool: local/test_tools.sh gets it"
    return subprocess.run([program, "check", "rules", rules], capture_output=True, text=True, timeout=60)


def test_prometheus_takes_every_rule():
    count = ALERTS.read_text().count("- alert:")
    done = promtool(ALERTS)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {count} rules found" in done.stdout
    assert count > 20


def test_it_would_refuse_a_wrong_one(tmp_path: Path):
    wrong = tmp_path / "alerts.yaml"
    wrong.write_text(ALERTS.read_text().replace("expr: ", "expr: sum(", 1))
    assert promtool(wrong).returncode != 0
