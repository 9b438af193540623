"""Commands that are printed are those that a shell takes: with the name, and the file where it is needed."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml

from local.versions import ROOT
from sluice.cli.options import load_pipeline
from sluice.config.files import read
from sluice.flow.verify.repairs import Repairs
from tests.support.verified import TEN

SPEC = {
    "kafka": [{"cluster": "dc1", "bootstrap": "h:1", "topics": ["bids"]}],
    "event": {"type": {"field": "type"}, "time": {"field": "ts"}},
    "lake": "file://lake",
    "tables": {"click": "e.clicks"},
}


@pytest.mark.parametrize(("folder", "config"), [("pipelines", False), ("some where", True)])
def test_a_command_names_the_file_where_its_name_does_not_find_it(
    folder: str, config: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path / "pipelines"))
    path = tmp_path / folder / "ads.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(SPEC))
    pipeline = read(path)
    elsewhere = ["--config", str(path)] if config else []
    assert shlex.split(pipeline.command("status", "--changes")) == [
        "sluice",
        "status",
        "ads",
        *elsewhere,
        "--changes",
    ]
    copied = pipeline.model_copy(update={"slice": pipeline.slice})
    words = ["--from", "2026-11-20T10:00Z", "--to", "2026-11-20T11:00Z"]
    assert shlex.split(Repairs.of(copied).clean(TEN.slice)) == [
        "sluice",
        "verify",
        "ads",
        *elsewhere,
        *words,
        "--clean",
    ]


def test_a_file_that_the_user_named_is_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The next shell may have another SLUICE_PIPELINES, or none."""
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    path = tmp_path / "ads.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    assert load_pipeline("ads", None).command("verify") == "sluice verify ads"
    assert load_pipeline("ads", path).command("verify") == f"sluice verify ads --config {path}"


def test_a_relative_path_is_printed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "ads.yaml").write_text(yaml.safe_dump(SPEC))
    monkeypatch.chdir(tmp_path)
    assert read(Path("ads.yaml")).command("verify") == f"sluice verify ads --config {tmp_path}/ads.yaml"


def test_no_other_place_writes_a_command():
    """Airflow's backfill has its own copy of the file, and takes no --config."""
    unfinished = re.compile(r"sluice (?!backfill)[a-z]+ $")
    found = []
    for path in sorted((ROOT / "plugins" / "sluice").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for part in node.values if isinstance(node, ast.JoinedStr) else ():
                if isinstance(part, ast.Constant) and unfinished.search(str(part.value)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
