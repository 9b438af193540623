"""What one pipeline's data provokes stays in its own row of the overview."""

from __future__ import annotations

import logging
from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake.open import open_lake
from sluice.page import rows
from sluice.page.rows import RequestedRange, rows_of
from sluice.page.status_cache import StatusCache
from tests.support.landing_world import pipeline


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://127.0.0.1:9")
    return [pipeline(name=name, lake=f"file://{tmp_path}") for name in ("a", "b", "c")]


def test_a_defect_is_told_on_its_row_and_logged_and_the_others_are_there(
    three: list, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    real = rows.read_verdict

    def read_verdict(lake):
        return real(lake) if lake.pipeline != "b" else 1 // 0

    monkeypatch.setattr(rows, "read_verdict", read_verdict)
    now = pendulum.datetime(2026, 11, 20, 12)
    with caplog.at_level(logging.ERROR):
        found = rows_of(StatusCache(), three, RequestedRange.of("720h", "now", now), {})
    assert [(row.pipeline, row.error, bool(row.cells)) for row in found] == [
        ("a", "", True),
        (
            "b",
            "Sluice failed (ZeroDivisionError): report it with the traceback in the web server's log",
            False,
        ),
        ("c", "", True),
    ]
    assert "the overview's row of pipeline b" in caplog.text
    assert "1 // 0" in caplog.text


def test_what_stops_the_process_stops_the_overview(three: list, monkeypatch: pytest.MonkeyPatch):
    def read_verdict(lake):
        raise KeyboardInterrupt

    monkeypatch.setattr(rows, "read_verdict", read_verdict)
    now = pendulum.datetime(2026, 11, 20, 12)
    with pytest.raises(KeyboardInterrupt):
        rows_of(StatusCache(), three, RequestedRange.of("720h", "now", now), {})
    assert open_lake(three[0]).url.endswith("/a")
