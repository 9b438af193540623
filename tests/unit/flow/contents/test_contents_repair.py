"""Rows of the lake are judged by the rules of their unit, whatever the pipeline file says by then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.contents.check_lake_rows import check_unit
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from sluice.state.rules import LandingRules, write_rules
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

UNIT = Unit(next(iter(hours(1))), "dc1")
EVENTS = [event(("click", "view")[n % 2], n, grade="k1") for n in range(4)]
BY_TYPE = {"type": {"field": "type"}, "time": {"field": "at"}}
BY_GRADE = {**BY_TYPE, "type": {"field": "grade"}}
NEVER = {**BY_TYPE, "time": {"field": "absent"}}
RUN = "sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z --mode"


def landed(spec: Pipeline, log: list[tuple] = EVENTS) -> tuple[World, MemoryLake]:
    world, lake = World({("dc1", "bids"): [log]}), MemoryLake()
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    return world, lake


def found(spec: Pipeline, lake: MemoryLake, **changes: Any) -> list[Anomaly]:
    manifest: Manifest = replace(read_manifests(lake, [UNIT])[UNIT], **changes)
    return check_unit(spec, lake, UNIT, manifest, Repairs("demo")).anomalies


def said(anomalies: list[Anomaly]) -> set[tuple[str, str, str]]:
    return {(anomaly.kind, anomaly.command, anomaly.advice) for anomaly in anomalies}


@pytest.mark.parametrize("now", [BY_GRADE, NEVER])
def test_rows_are_judged_by_the_rules_that_they_landed_by(now):
    _, lake = landed(pipeline(event=BY_TYPE))
    assert found(pipeline(event=now), lake) == []


@pytest.mark.parametrize(("now", "kind"), [(BY_GRADE, "wrong type"), (NEVER, "wrong event hour")])
def test_a_row_that_is_not_as_its_rules_say_is_read_from_kafka_again(now, kind):
    _, lake = landed(pipeline(event=BY_TYPE))
    other = write_rules(lake, LandingRules.of(pipeline(event=now), None))
    assert said(found(pipeline(event=BY_TYPE), lake, rules=other)) == {(kind, f"{RUN} reland", "")}


def test_rows_of_a_retry_are_judged_by_its_rules():
    _, lake = landed(pipeline(event=BY_TYPE))
    before = write_rules(lake, LandingRules.of(pipeline(event=BY_GRADE), None))
    retried = read_manifests(lake, [UNIT])[UNIT].rules
    assert found(pipeline(event=BY_GRADE), lake, rules=before, retried=(retried,)) == []


def test_a_manifest_that_names_no_rules_is_judged_by_the_pipeline_file():
    _, lake = landed(pipeline(event=BY_TYPE))
    assert said(found(pipeline(event=BY_GRADE), lake, rules="")) == {("wrong type", f"{RUN} reland", "")}


def test_the_counts_of_a_file_are_not_a_matter_of_rules():
    _, lake = landed(pipeline(event=BY_TYPE))
    manifest = read_manifests(lake, [UNIT])[UNIT]
    files = tuple(replace(file, rows=file.rows + 1) for file in manifest.files)
    wrong = found(pipeline(event=BY_TYPE), lake, files=files)
    assert ("wrong type", f"{RUN} reland", "") in said(wrong)
