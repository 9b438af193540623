from __future__ import annotations

from sluice.airflow.assets import pipeline_alias, table_asset, table_events


def published(table: str, hours: int) -> list[dict]:
    return [
        {
            "table": table,
            "slice": f"2026-11-20T{hour:02d}Z",
            "rows": 10 + hour,
            "manifests": {"dc1": f"1-{hour}"},
        }
        for hour in range(hours)
    ]


def test_an_event_per_table_and_slice():
    assert table_events(published("ads.clicks", 2) + published("ads.bids", 1), limit=2) == [
        ("ads.clicks", {"slice": "2026-11-20T00Z", "rows": 10, "manifests": {"dc1": "1-0"}}),
        ("ads.clicks", {"slice": "2026-11-20T01Z", "rows": 11, "manifests": {"dc1": "1-1"}}),
        ("ads.bids", {"slice": "2026-11-20T00Z", "rows": 10, "manifests": {"dc1": "1-0"}}),
    ]


def test_a_big_batch_has_one_event_per_table():
    assert table_events(published("ads.clicks", 3), limit=2) == [
        ("ads.clicks", {"slices": ["2026-11-20T00Z", "2026-11-20T01Z", "2026-11-20T02Z"], "rows": 33})
    ]


def test_nothing_published_is_no_event():
    assert table_events([]) == []


def test_airflow_leaves_the_names_as_they_are():
    asset = table_asset("adx", "Ads.Clicks_2")
    assert (asset.name, asset.uri) == ("sluice://adx/Ads.Clicks_2", "sluice://adx/Ads.Clicks_2")
    assert pipeline_alias("adx").name == "sluice://adx"
