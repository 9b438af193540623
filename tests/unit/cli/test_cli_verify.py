"""What `sluice verify` prints: a line for each cause, the commands that repair, and the counts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from sluice.cli import verify
from sluice.cli.commands import commands
from sluice.cli.verify import _print, _Seen
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.verdict import OpenAnomaly, Verification, opened_by

AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-20T20:00:00Z", 20, 180, 20)
HOURS = [f"2026-11-20T{hour:02}Z" for hour in range(20)]
NOTES = [f"not compared: table {number}" for number in range(7)]


def anomaly(hour: str) -> OpenAnomaly:
    place = {"slice": hour, "cluster": "dc1", "table": "e.clicks", "command": "sluice run p --mode repair"}
    return opened_by(Anomaly(AnomalyKind.ROWS_MISSING, "9 rows", "8", **place), AT)


def printed(
    capsys: pytest.CaptureFixture[str], hours: list[str], notes: list[str], verbose: bool
) -> list[str]:
    anomalies = [anomaly(hour) for hour in hours]
    counts = {"slices": 20, "records": 180, "removed": 0, "rejected_rows": 0, "broken": len(hours)}
    seen = _Seen(counts, [], causes_of(anomalies), notes, [], [])
    _print(seen, ["sluice run p --mode repair"] if hours else [], verbose)
    return capsys.readouterr().out.splitlines()


def test_what_is_whole_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert printed(capsys, [], [], False) == ["slices: 20, records: 180, broken: 0"]


def test_what_is_broken_is_a_line_for_each_cause_and_the_reason_comes_last(
    capsys: pytest.CaptureFixture[str],
):
    span = f"in 20 hours, from {HOURS[0]} to {HOURS[-1]}"
    cause = f"wrong rows, table e.clicks: 20 × rows missing {span}; of the first: expected 9 rows, seen 8"
    repair, counts = "repair: sluice run p --mode repair", "slices: 20, records: 180, broken: 20"
    more = "and 2 more: --verbose shows all"
    assert printed(capsys, HOURS, NOTES, False) == [cause, *NOTES[:5], more, repair, counts]
    places = [f"- rows missing: {anomaly(hour).place}: expected 9 rows, seen 8" for hour in HOURS]
    assert printed(capsys, HOURS, NOTES, True) == [cause, *places, *NOTES, repair, counts]


TO_MEND = "table e.clicks: no load of it can succeed: view v; correct the view"


@pytest.mark.parametrize(
    ("notes", "blocked", "code"), [([], [], 0), (NOTES, [], 0), ([], [TO_MEND], 1), (NOTES, [TO_MEND], 1)]
)
def test_what_somebody_has_to_mend_before_it_is_compared_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, notes: list[str], blocked: list[str], code: int
):
    """Columns that no comparison can judge are notes, however many."""
    counts = {"slices": 20, "records": 180, "broken": 0, "not_compared": len(blocked)}
    seen = _Seen(counts, [], [], notes, [], [], blocked)
    monkeypatch.setattr(verify, "load_pipeline", lambda *_: SimpleNamespace(name="p"))
    monkeypatch.setattr(verify, "day_or", lambda *_: (None, "now"))
    monkeypatch.setattr(verify, "tables_of", lambda *_: None)
    monkeypatch.setattr(verify, "known_range", lambda *_: None)
    monkeypatch.setattr(verify, "_verified", lambda *_, **__: seen)
    result = CliRunner().invoke(commands, ["verify", "p", "--contents"])
    assert result.exit_code == code
    assert (f"not compared: {TO_MEND}\n" in result.output) == bool(blocked)
    assert ("not_compared: 1" in result.output) == bool(blocked)
    answer = json.loads(CliRunner().invoke(commands, ["verify", "p", "--contents", "--json"]).output)
    assert (answer["blocked"], answer["notes"], answer["broken"]) == (blocked, notes, 0)
