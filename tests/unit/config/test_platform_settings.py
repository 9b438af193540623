"""The `airflow` block of a pipeline file, and `_defaults.yaml` beside the files."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from sluice.config import files
from sluice.config.airflow import STEPS, AirflowSettings
from sluice.config.explain import explain
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongPipeline

TEXT = """\
kafka: [{cluster: dc1, bootstrap: "kafka:9092", topics: [events]}]
event: {type: {field: type}, time: {field: at}}
lake: file:///lake
"""
DEFAULTS = """\
airflow:
  owner: platform
  tags: [shared, tier-1]
  pool: ${SLUICE_VAR_POOL:-etl}
  steps:
    land: {pool: spark, queue: big, timeout: 2h}
    load: {priority: 7}
"""


def read(folder: Path, own: str = "", defaults: str | None = None, **environment: str) -> Pipeline:
    (folder / "ads.yaml").write_text(TEXT + own)
    if defaults is not None:
        (folder / "_defaults.yaml").write_text(defaults)
    return files.read(folder / "ads.yaml", environment)


def test_without_anything_it_is_as_airflow_has_it(tmp_path: Path):
    found = read(tmp_path).airflow
    assert (found.owner, found.tags, found.queue, found.pools) == ("sluice", (), None, ("default_pool",))
    assert (found.retries, found.retry_delay, found.backfills) == (3, timedelta(seconds=30), 4)
    assert (found.offset, found.timeout) == (timedelta(0), "auto")


def test_a_step_has_its_own_keys_and_else_those_of_all(tmp_path: Path):
    found = read(tmp_path, "airflow: {queue: q, timeout: 6h, steps: {land: {queue: spark, timeout: none}}}")
    land, load = found.airflow.of("land"), found.airflow.of("load")
    assert (land.queue, land.pool, land.priority, land.timeout) == ("spark", "default_pool", 1, "none")
    assert (load.queue, load.pool, load.priority, load.timeout) == (
        "q",
        "default_pool",
        1,
        timedelta(hours=6),
    )


def test_the_steps_are_those_of_the_dags():
    tasks = "plan settle resolve land load verify publish verify_all cluster forget watch"
    assert sorted(STEPS) == sorted(tasks.split())
    assert [AirflowSettings().of(step).pool for step in STEPS] == ["default_pool"] * len(STEPS)


def test_the_folders_defaults_hold_where_a_file_says_nothing(tmp_path: Path):
    own = "airflow: {owner: ads, tags: [ads], steps: {land: {queue: small}, verify: {pool: check}}}\n"
    found = read(tmp_path, own, DEFAULTS, SLUICE_VAR_POOL="wide").airflow
    assert (found.owner, found.tags, found.pool) == ("ads", ("ads",), "wide")
    land = found.of("land")
    assert (land.pool, land.queue, land.timeout) == ("spark", "small", timedelta(hours=2))
    assert (found.of("load").priority, found.of("verify").pool, found.of("plan").pool) == (7, "check", "wide")
    assert found.pools == ("wide", "spark", "check")
    assert read(tmp_path).airflow.owner == "platform"


def test_changed_defaults_are_read_again(tmp_path: Path):
    assert read(tmp_path, "", "airflow: {owner: one}").airflow.owner == "one"
    assert read(tmp_path, "", "airflow: {owner: another}").airflow.owner == "another"
    (tmp_path / "_defaults.yaml").unlink()
    assert read(tmp_path).airflow.owner == "sluice"


def test_the_defaults_are_no_pipeline(tmp_path: Path):
    read(tmp_path, "", DEFAULTS)
    assert files.pipeline_names(tmp_path) == ["ads"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafka: []\n", ":1:1: kafka: no such key; there are: airflow"),
        ("airflow: {owners: x}", ":1:11: airflow.owners: no such key: did you mean `owner`?"),
        ("airflow:\n  steps: {lnd: {}}", ":2:11: airflow.steps.lnd: no such step; there are: plan, settle"),
        ("airflow: [a]", ":1:1: airflow: expected a mapping"),
        (
            "airflow: {pool: '${SLUICE_VAR_NOT_THERE}'}",
            ": airflow.pool: the environment has no SLUICE_VAR_NOT_THERE",
        ),
        ("[1]", ": (file): expected a mapping with airflow"),
        ("", ": (file): expected a mapping with airflow"),
        ("airflow: {owner: a, owner: b}", ":1:21: (file): not YAML: 'owner' is there twice"),
        (
            "a: &a [x]\nb: &b [*a, *a]\n" + "".join(f"c{n}: [*b,*b]\n" for n in range(9)),
            ":1:1: a: no such key",
        ),
        ("airflow: " + "[" * 2000, ": (file): nested too deeply"),
        ("airflow: {tags: [" + "x" * (1 << 20) + "]}", ": (file): cannot be read: it has more than 1 MiB"),
        ("airflow: !!python/object:os.system {}", ":1:10: (file): a YAML tag"),
        ("airflow: {owner: ''}", ":1:11: airflow.owner: expected at least 1 characters"),
    ],
)
def test_wrong_defaults_are_one_line_that_names_their_file(tmp_path: Path, text: str, said: str):
    with pytest.raises(WrongPipeline) as raised:
        read(tmp_path, "", text)
    assert str(raised.value).startswith(f"{tmp_path}/_defaults.yaml{said}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("own", "defaults", "said"),
    [
        (
            "",
            "airflow:\n  owner: x\n  offset: 3h\n",
            "_defaults.yaml:3:3: airflow.offset: expected less than",
        ),
        ("airflow: {tags: [x]}", "airflow: {retries: 101}", "_defaults.yaml:1:11: airflow.retries: "),
        (
            "airflow: {offset: 3h}",
            "airflow: {offset: 2h}",
            "ads.yaml:4:11: airflow.offset: expected less than",
        ),
        (
            "",
            "airflow: {offset: '${SLUICE_VAR_LATER}'}",
            "_defaults.yaml:1:11: airflow.offset: expected less than",
        ),
    ],
)
def test_a_default_that_is_wrong_for_one_pipeline_has_its_own_place(tmp_path: Path, own, defaults, said):
    with pytest.raises(WrongPipeline) as raised:
        read(tmp_path, own, defaults, SLUICE_VAR_LATER="3h")
    assert str(raised.value).startswith(f"{tmp_path}/{said}")
    assert raised.value.from_environment == ("LATER" in defaults)


def test_defaults_under_another_ending_are_refused_by_their_name(tmp_path: Path):
    (tmp_path / "_defaults.yml").write_text("airflow: {owner: platform}")
    with pytest.raises(WrongPipeline) as raised:
        read(tmp_path)
    assert str(raised.value) == f"{tmp_path}/_defaults.yml: (file): is not read: call it _defaults.yaml"


def test_defaults_that_cannot_be_read(tmp_path: Path):
    (tmp_path / "_defaults.yaml").mkdir()
    said = r"_defaults\.yaml: \(file\): cannot be read: it is a folder, not a file"
    with pytest.raises(WrongPipeline, match=said):
        read(tmp_path)


def test_what_a_variable_of_the_defaults_says_is_not_for_others(tmp_path: Path):
    with pytest.raises(WrongPipeline) as raised:
        read(tmp_path, "", "airflow: {timeout: '${SLUICE_VAR_HIDDEN}'}", SLUICE_VAR_HIDDEN="hush hush")
    assert "hush" not in raised.value.public
    assert "hush" in str(raised.value)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("airflow: {offset: 90s}", "airflow.offset: expected whole minutes"),
        ("airflow: {offset: 1h}", "airflow.offset: expected less than a slice"),
        (
            "slice: 45m\nairflow: {offset: 5m}",
            "airflow.offset: expected none: no cron has slices of 45m and 90m",
        ),
        ("airflow: {timeout: 0s}", "airflow.timeout: expected a duration of more than 0s, auto or none"),
        (
            "airflow: {on_failure: [{notifier: a.B}, {notifier: a.B}]}",
            "airflow.on_failure: a channel is listed twice",
        ),
        ("airflow: {on_failure: [{email: a}]}", "airflow.on_failure[0].email: no such key"),
        ("airflow: {deadline: 45m}", "airflow.deadline: expected `on_failure`, the channels"),
        (
            "airflow: {deadline: 0s, on_failure: [{notifier: a.B}]}",
            "airflow.deadline: expected a duration of more",
        ),
        ("airflow: {retries: -1}", "airflow.retries: expected at least 0"),
        ("airflow: {retries: true}", "airflow.retries: expected a number, not true"),
        ("airflow: {steps: {land: {priority: false}}}", "airflow.steps.land.priority: expected a number"),
        ("alarms: {lag_records: true}", "alarms.lag_records: expected a number, not true"),
        ("airflow: {backfills: 0}", "airflow.backfills: expected at least 1"),
        (f"airflow: {{tags: [{'x' * 101}]}}", "airflow.tags[0]: expected at most 100 characters"),
        ("airflow: {access_control: {Ads: [can_fly]}}", "airflow.access_control.Ads[0]: expected 'can_read'"),
        ("airflow: {steps: {land: {pol: x}}}", "airflow.steps.land.pol: no such key: did you mean `pool`?"),
        ("airflow: {steps: [land]}", "airflow.steps: expected a mapping"),
        ("airflow: land", "airflow: expected a mapping"),
        ("pools: {land: x}", "pools: no such key"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, own: str, said: str):
    for defaults in ("airflow: {}", DEFAULTS):
        with pytest.raises(WrongPipeline) as raised:
            read(tmp_path, own, defaults)
        assert f": {said}" in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("own", "line"),
    [("airflow:\n  tags: [a]\n  offset: 2h\n", 3), ("airflow:\n  owner: a\n  deadline: 45m\n", 3)],
)
def test_a_mistake_that_two_keys_make_has_the_line_of_one(tmp_path: Path, own: str, line: int):
    with pytest.raises(WrongPipeline) as raised:
        read(tmp_path, own)
    begins = (tmp_path / "ads.yaml").read_text().splitlines().index("airflow:")
    assert f"ads.yaml:{begins + line}:3: airflow." in str(raised.value)


def test_variables_that_may_be_secret_are_shown_by_their_names(tmp_path: Path):
    """A channel's arguments: any of them may be a token."""
    own = (
        'airflow:\n  owner: ads\n  tags: ["${SLUICE_VAR_TAG}"]\n'
        '  on_failure: [{notifier: a.B, arguments: {to: "${SLUICE_VAR_WHO}", text: "{subject}"}}]\n'
    )
    environment = {"SLUICE_VAR_WHO": "hunter3", "SLUICE_VAR_TAG": "tier-1"}
    read(tmp_path, own, **environment)
    found = {one.key: (one.value, one.source) for one in explain(tmp_path / "ads.yaml", environment)}
    assert found["airflow.tags"] == ("[tier-1]", "line 6, SLUICE_VAR_TAG")
    assert found["airflow.on_failure[0].arguments"] == (
        "{to: '${SLUICE_VAR_WHO}', text: '{subject}'}",
        "line 7, SLUICE_VAR_WHO",
    )


def test_it_is_said_where_a_value_is_from(tmp_path: Path):
    read(tmp_path, "airflow:\n  owner: ads\n  steps: {land: {queue: small}}\n", DEFAULTS)
    found = {one.key: (one.value, one.source) for one in explain(tmp_path / "ads.yaml", os.environ)}
    assert {key.removeprefix("airflow."): found[key] for key in found if key.startswith("airflow.")} == {
        "owner": ("ads", "line 5"),
        "tags": ("[shared, tier-1]", "_defaults.yaml line 3"),
        "queue": ("", "default"),
        "pool": ("etl", "_defaults.yaml line 4, SLUICE_VAR_POOL"),
        "priority": ("1", "default"),
        "timeout": ("auto", "default"),
        "retries": ("3", "default"),
        "retry_delay": ("30s", "default"),
        "steps.land.queue": ("small", "line 6"),
        "steps.land.pool": ("spark", "_defaults.yaml line 6"),
        "steps.land.priority": ("", "default"),
        "steps.land.timeout": ("2h", "_defaults.yaml line 6"),
        "steps.load.queue": ("", "default"),
        "steps.load.pool": ("", "default"),
        "steps.load.priority": ("7", "_defaults.yaml line 7"),
        "steps.load.timeout": ("", "default"),
        "offset": ("0s", "default"),
        "backfills": ("4", "default"),
        "access_control": ("", "default"),
        "deadline": ("none", "default"),
        "on_failure": ("", "default"),
    }
