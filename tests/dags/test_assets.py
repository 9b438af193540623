from __future__ import annotations

from airflow.sdk import Asset
from structlog.testing import capture_logs

from sluice.airflow.assets import emit_events, pipeline_alias, table_asset, table_events


def published(table: str, hours: int) -> list[dict]:
    return [{"table": table, "slice": f"2026-11-20T{hour:02d}Z", "rows": 10 + hour} for hour in range(hours)]


def test_an_event_per_table_has_all_its_slices():
    assert table_events(published("ads.clicks", 2) + published("ads.bids", 1)) == {
        "ads.clicks": {"2026-11-20T00Z": 10, "2026-11-20T01Z": 11},
        "ads.bids": {"2026-11-20T00Z": 10},
    }


def test_nothing_published_is_no_event():
    assert table_events([]) == {}


def test_events_are_emitted_and_logged_in_one_line():
    class Alias:
        def __init__(self) -> None:
            self.events: list[tuple[str, dict]] = []

        def add(self, asset: Asset, extra: dict) -> None:
            self.events.append((asset.uri, extra))

    alias, rows = Alias(), published("ads.clicks", 40) + published("ads.bids", 40)
    with capture_logs() as logs:
        emit_events("ads", rows, {pipeline_alias("ads"): alias})
    assert alias.events == [
        (f"sluice://ads/{table}", {"slices": {f"2026-11-20T{hour:02d}Z": 10 + hour for hour in range(40)}})
        for table in ("ads.clicks", "ads.bids")
    ]
    (told,) = logs
    assert (told["event"], told["events"]) == ("asset events", 2)
    assert told["slices"] == "40, from 2026-11-20T00Z to 2026-11-20T39Z"
    assert told["rows"] == {"ads.clicks": sum(range(10, 50)), "ads.bids": sum(range(10, 50))}


def test_airflow_leaves_the_names_as_they_are():
    asset = table_asset("adx", "Ads.Clicks_2")
    assert (asset.name, asset.uri) == ("sluice://adx/Ads.Clicks_2", "sluice://adx/Ads.Clicks_2")
    assert pipeline_alias("adx").name == "sluice://adx"
