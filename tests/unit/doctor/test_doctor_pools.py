"""The pools that a pipeline's tasks name; tests/dags asks a real Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.pools import pool_checks

TEXT = """\
kafka: [{cluster: dc1, bootstrap: "kafka:9092", topics: [events]}]
event: {type: {field: type}, time: {field: at}}
lake: file:///lake
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "_defaults.yaml").write_text("airflow: {steps: {land: {pool: big one}}}")
    (tmp_path / "ads.yaml").write_text(TEXT + "airflow: {steps: {load: {pool: sluice_load}}}")
    return read(tmp_path / "ads.yaml")


def test_airflows_own_pool_is_always_there(tmp_path: Path):
    (tmp_path / "ads.yaml").write_text(TEXT)
    assert list(pool_checks(read(tmp_path / "ads.yaml"), pytest.fail)) == []


def test_a_pool_that_is_missing_is_named_with_the_command_that_makes_it(pipeline: Pipeline):
    found = list(pool_checks(pipeline, lambda: frozenset({"default_pool", "sluice_load"})))
    assert [(check.level, check.place) for check in found] == [
        (Level.FAIL, "pool big one"),
        (Level.OK, "pool sluice_load"),
    ]
    assert (
        found[0].remedy
        == "`airflow pools set 'big one' SLOTS DESCRIPTION`; for another Airflow, AIRFLOW_HOME"
    )


def test_without_an_airflow_nothing_is_known(pipeline: Pipeline):
    [check] = pool_checks(pipeline, lambda: None)
    assert (check.level, check.place) == (Level.WARN, "pools")
