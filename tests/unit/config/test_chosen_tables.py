"""Which tables --table names, and which go with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.pipeline import Pipeline, chosen_tables, tables_for
from sluice.errors import WrongUse


@pytest.fixture
def spec(tmp_path: Path) -> Pipeline:
    (tmp_path / "users.sql").write_text("SELECT user, count() AS n FROM {source} GROUP BY user")
    content = {
        "name": "p",
        "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["bids"]}],
        "event": {"type": {"field": "type"}, "time": {"record": True}},
        "lake": "file:///lake",
        "tables": {"click": "e.clicks", "tap": "e.clicks", "bid": "e.bids", "sale": "shop.bids",
                   "*": "e.other"},
        "counts": [
            {"table": "e.traffic", "by": ["country"]},
            {"table": "e.touches", "types": ["tap", "click"]},
            {"table": "e.mixed", "types": ["tap", "bid"]},
        ],
        "rollups": {
            "e.users": {"from": "e.clicks", "sql": "users.sql"},
            "e.more": {"from": "e.clicks", "sql": "users.sql"},
            "e.sold": {"from": "shop.bids", "sql": "users.sql"},
            "e.touched": {"from": "e.touches", "sql": "users.sql"},
        },
    }  # fmt: skip
    return Pipeline.model_validate(content, context={"folder": tmp_path})


CLICKS = {"e.clicks", "e.touches", "e.users", "e.more", "e.touched"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["e.clicks"], CLICKS),
        (["clicks"], CLICKS),
        (["tap"], CLICKS),
        (["*"], {"e.other"}),
        (["e.bids"], {"e.bids"}),
        (["bid"], {"e.bids"}),
        (["sale"], {"shop.bids", "e.sold"}),
        (["e.clicks", "bid"], {*CLICKS, "e.bids", "e.mixed"}),
        (["users"], {"e.users"}),
        (["e.traffic"], {"e.traffic"}),
        (["other", "click", "other"], {*CLICKS, "e.other"}),
    ],
)
def test_what_goes_with_a_table(spec: Pipeline, names: list[str], expected: set[str]):
    assert chosen_tables(spec, names) == expected
    assert [target.table for target in spec.chosen(expected)] == [
        target.table for target in spec.targets if target.table in expected
    ]


@pytest.mark.parametrize("names", [[], ["click", "bid", "sale", "*"]])
def test_all_of_them_are_no_choice(spec: Pipeline, names: list[str]):
    assert chosen_tables(spec, names) is None
    assert spec.chosen(None) == spec.targets


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("e.click", r"pipeline p has no table 'e.click'; did you mean e.clicks\?"),
        ("tpa", r"no table 'tpa'; did you mean tap\?"),
        ("bids", r"table 'bids': which one\? e.bids or shop.bids"),
        ("zzz", r"no table 'zzz'; there are: e.clicks, e.bids, shop.bids, e.other, e.traffic"),
        ("", "has no table ''"),
        ("E.CLICKS", "has no table 'E.CLICKS'"),
    ],
)
def test_what_names_no_table(spec: Pipeline, name: str, words: str):
    with pytest.raises(WrongUse, match=words) as raised:
        chosen_tables(spec, ["e.clicks", name])
    assert "\n" not in str(raised.value)


def test_a_reland_is_of_all_tables(spec: Pipeline):
    with pytest.raises(WrongUse, match="choose no table, or load the table again from the lake"):
        tables_for(spec, ["click"], "reland")
    assert tables_for(spec, ["click"], "reload") == CLICKS
    assert tables_for(spec, [], "reland") is None


def test_a_repair_loads_no_traffic_counts_beside_the_table(spec: Pipeline):
    assert tables_for(spec, ["click"], "repair") == {"e.clicks", "e.users", "e.more"}
    assert tables_for(spec, ["e.touches"], "repair") == {"e.touches", "e.touched"}
