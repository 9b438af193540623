"""Rows that the pipeline file of now reads in another way: the command that is named repairs them."""

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
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

UNIT = Unit(next(iter(hours(1))), "dc1")
EVENTS = [event(("click", "view")[n % 2], n, grade="k1") for n in range(4)]
BY_TYPE = {"type": {"field": "type"}, "time": {"field": "at"}}
BY_GRADE = {**BY_TYPE, "type": {"field": "grade"}}
NEVER = {**BY_TYPE, "time": {"field": "absent"}}
RUN = "sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z --mode"
OTHER = "the slice was landed by other rules of the pipeline file than it has now"
NOW = "the pipeline file as it is now decides what a payload says"


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


@pytest.mark.parametrize(("rules", "kind"), [(BY_GRADE, "wrong type"), (NEVER, "wrong event hour")])
def test_other_rules_are_repaired_out_of_the_lake(rules, kind):
    world, lake = landed(pipeline(event=BY_TYPE))
    after = pipeline(event=rules)
    assert said(found(after, lake)) == {(kind, f"{RUN} remake", OTHER)}
    world.kafka.silent = frozenset(["dc1"])
    world.land(after, lake, hours(1), "remake", "again")
    assert found(after, lake) == []


def test_a_row_that_is_not_as_its_rules_say_is_read_from_kafka_again():
    _, lake = landed(pipeline(event=BY_TYPE))
    (rules,) = read_manifests(lake, [UNIT])[UNIT].rules.values()
    assert found(pipeline(event=BY_TYPE), lake, rules={"bids": rules}) == []
    _, swapped = landed(pipeline(event=BY_GRADE))
    wrong = found(pipeline(event=BY_TYPE), swapped, rules={"bids": rules})
    assert said(wrong) == {("wrong type", f"{RUN} reland", NOW)}


def test_a_manifest_that_says_no_rules_keeps_its_repair():
    _, lake = landed(pipeline(event=BY_TYPE))
    wrong = found(pipeline(event=BY_GRADE), lake, rules={})
    assert said(wrong) == {("wrong type", f"{RUN} reland", NOW)}


def test_what_cannot_be_remade_is_read_from_kafka_again():
    stamp = EVENTS[0][1]
    log = [(b"[" + b",".join(text for text, _ in EVENTS) + b"]", stamp), (b"[]", stamp)]
    _, lake = landed(pipeline(event={**BY_TYPE, "rows": "array"}), log)
    ((_, command, advice),) = said(found(pipeline(event=BY_GRADE), lake))
    assert command == f"{RUN} reland"
    assert advice.startswith(f"{OTHER}, and cannot be remade: 1 of its messages were empty arrays")


def test_the_counts_of_a_file_are_not_a_matter_of_rules():
    _, lake = landed(pipeline(event=BY_TYPE))
    manifest = read_manifests(lake, [UNIT])[UNIT]
    files = tuple(replace(file, rows=file.rows + 1) for file in manifest.files)
    wrong = found(pipeline(event=BY_TYPE), lake, files=files, rules={"bids": "other"})
    assert ("wrong type", f"{RUN} reland", "") in said(wrong)
