"""`sluice run` over an hour that is mostly rejected shows what it did, and ends with one line and code 1."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

import sluice.cli
from sluice.cli import run
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.flow.verify.check_rejected import check_rejected
from sluice.flow.verify.verdict import note_verified
from tests.support.verified import FACTS, with_manifest

FILE = """
kafka: [{cluster: dc1, bootstrap: "127.0.0.1:1", topics: [bids]}]
event: {type: {field: type}, time: {record: true}}
lake: file://LAKE
"""


@pytest.mark.parametrize(("rejected", "code"), [(6, 1), (5, 0)])
def test_its_last_line_says_the_share_and_what_repairs_it(
    rejected: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    path = tmp_path / "ads.yaml"
    path.write_text(FILE.replace("LAKE", str(tmp_path / "lake")))
    spec = read(path)
    facts = replace(with_manifest(read=10, rejected_records={"not JSON": rejected}), pipeline=spec, tables=())
    found = list(check_rejected(facts))
    note_verified(open_lake(spec), FACTS.slices, facts.statuses, found, pendulum.now("UTC"))
    monkeypatch.setattr(run, "_steps", lambda *_: (list(facts.statuses), {}))
    monkeypatch.setattr(run, "refuse_missing", lambda *_: None)
    words = ["run", "ads", "--config", str(path), *FACTS.slices.words, "--json"]
    monkeypatch.setattr("sys.argv", ["sluice", *words])
    assert sluice.cli._run() == code
    shown, said = capsys.readouterr()
    assert [unit["mostly_rejected"] for unit in json.loads(shown)["units"]] == [bool(code), False]
    command = f"sluice rejected ads --config {path} --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z"
    assert said.splitlines()[-1:] == (
        [
            "sluice: mostly rejected: slice 2026-11-20T10Z/dc1: expected at most 50.0 % rejected for one "
            f"reason, seen 6 of 10 records (60.0 %): not JSON; `{command} --reason 'not JSON'` says what "
            "repairs it; a larger `rejected.fail_above` in the pipeline file accepts it"
        ]
        if code
        else []
    )
