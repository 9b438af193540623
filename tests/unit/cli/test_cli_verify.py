"""What `sluice verify` prints: a line for each cause, the commands that repair, and the counts."""

from __future__ import annotations

import pytest

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
    cause = f"wrong rows: table e.clicks: 20 × rows missing {span}; of the first: expected 9 rows, seen 8"
    repair, counts = "repair: sluice run p --mode repair", "slices: 20, records: 180, broken: 20"
    more = "and 2 more: --verbose shows all"
    assert printed(capsys, HOURS, NOTES, False) == [cause, *NOTES[:5], more, repair, counts]
    places = [f"- rows missing: {anomaly(hour).place}: expected 9 rows, seen 8" for hour in HOURS]
    assert printed(capsys, HOURS, NOTES, True) == [cause, *places, *NOTES, repair, counts]
