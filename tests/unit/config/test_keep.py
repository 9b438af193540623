"""`keep:` in the pipeline file: what it means, and what the other keys contradict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
import pytest
from pydantic import ValidationError

from sluice.config.pipeline import Pipeline
from tests.support.landing_world import pipeline

NOW = pendulum.datetime(2026, 11, 25)


def test_without_it_nothing_is_forgotten():
    keep = pipeline().keep
    assert (keep.forgets, keep.lake, keep.rejected_for, keep.of_table("db.click")) == (
        False,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("said", "lake", "rejected"),
    [
        ({"lake": "400d"}, 400, 400),
        ({"lake": "400d", "rejected": "30d"}, 400, 30),
        ({"rejected": "30d"}, None, 30),
        ({"lake": "400d", "rejected": "400d"}, 400, 400),
        ({"lake": "none", "rejected": "30d"}, None, 30),
    ],
)
def test_how_long_files_are_kept(said: dict[str, str], lake: int | None, rejected: int):
    keep = pipeline(keep=said).keep
    assert keep.forgets
    assert keep.lake == (None if lake is None else timedelta(days=lake))
    assert keep.rejected_for == timedelta(days=rejected)


def test_a_duration_alone_stands_for_every_table():
    keep = pipeline(keep={"tables": "730d"}).keep
    assert (keep.forgets, keep.of_table("db.click")) == (False, timedelta(days=730))
    keep = pipeline(keep={"tables": {"db.click": "90d", "*": "730d"}}).keep
    assert [keep.of_table(t) for t in ("db.click", "db.rest")] == [timedelta(days=90), timedelta(days=730)]
    assert pipeline(keep={"tables": {"db.click": "90d"}}).keep.of_table("db.rest") is None
    assert keep.began_before("db.click", NOW) == pendulum.datetime(2026, 8, 27)


@pytest.mark.parametrize(
    ("said", "key", "expected"),
    [
        ({"lake": "30d", "rejected": "31d"}, "keep.rejected", "no more than `keep.lake`"),
        ({"lake": "25h"}, "keep.lake", "expected at least 26h: hourly runs go back so far (`lookback`)"),
        ({"rejected": "1d"}, "keep.rejected", "expected at least 26h"),
        ({"tables": "1d"}, "keep.tables.*", "expected at least 26h"),
        ({"tables": {"db.clicks": "90d"}}, "keep.tables.db.clicks", 'a table of this file, or "*"'),
        ({"lake": "a year"}, "keep.lake", "expected a duration"),
        ({"tables": {"*": True}}, "keep.tables.*", "expected a duration"),
        ({"lakes": "400d"}, "keep.lakes", "Extra inputs"),
    ],
)
def test_what_the_other_keys_contradict(said: dict[str, Any], key: str, expected: str):
    with pytest.raises(ValidationError) as refused:
        pipeline(keep=said)
    [error] = refused.value.errors()
    wrong = getattr(error.get("ctx", {}).get("error"), "place", None)
    assert ".".join(map(str, (*error["loc"], *(wrong or ())))) == key
    assert expected in error["msg"]


def test_the_hourly_run_reads_what_it_may_still_do():
    assert spec(lookback="2d", slice="6h", grace="12h", lake="66h").keep.lake == timedelta(hours=66)
    with pytest.raises(ValidationError, match="expected at least 66h"):
        spec(lookback="2d", slice="6h", grace="12h", lake="65h")
    with pytest.raises(ValidationError, match="expected at least 1475m"):
        spec(lookback="1d", slice="15m", settle="20m", lake="1474m")


def spec(lake: str, **more: Any) -> Pipeline:
    return pipeline(keep={"lake": lake}, **more)
