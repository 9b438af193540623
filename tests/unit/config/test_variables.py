"""A pipeline file names variables that are meant for it, and shows no secret of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config import files
from sluice.config.explain import SettingInForce, explain
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongPipeline

HUSH = "hush-hush-hush-hush"
BASE = {
    "kafka": "[{cluster: dc1, bootstrap: 'b:1', topics: [events]}]",
    "event": "{type: {field: type}, time: {field: at}}",
    "lake": "file:///srv/lake",
    "tables": "{click: demo.clicks}",
}
PLACES = {
    "kafka": "[{cluster: dc1, bootstrap: 'b:1', topics: ['%s']}]",
    "tables": "{click: '%s'}",
    "lake": "'file:///%s'",
    "spark": "{spark.app.note: '%s'}",
    "airflow": "{owner: '%s', tags: [a]}",
}
HIDDEN = {
    "mask": "{email: {hash: '%s'}}",
    "airflow": "{on_failure: [{notifier: a.B, arguments: {token: '%s'}}]}",
}
SECRETS = ("S3_SECRET", "A_TOKEN", "MY_PASSWORD", "DB_PWD", "DBPASS", "MASK_KEY", "MY_DSN", "AIRFLOW_CONN_X")


def read(
    folder: Path, changes: dict[str, str], environment: dict[str, str]
) -> tuple[Pipeline, list[SettingInForce]]:
    path = folder / "ads.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in {**BASE, **changes}.items()))
    return files.read(path, environment), explain(path, environment)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("default", ["", ":-harmless"])
@pytest.mark.parametrize("name", ["AUDIT_ENV", "PATH", "SLUICE_PIPELINES", "AIRFLOW__CORE__FERNET_KEY"])
def test_a_variable_that_is_meant_for_something_else_is_refused(tmp_path, place, default, name):
    """Also where it has a default: whether the machine has it is no business of the file's author."""
    changes = {place: PLACES[place] % f"${{{name}{default}}}"}
    for environment in ({name: HUSH}, {}):
        with pytest.raises(
            WrongPipeline, match=rf"ads\.yaml: {place}.*: \$\{{{name}\}} is not for"
        ) as caught:
            read(tmp_path, changes, environment)
        assert HUSH not in str(caught.value)
        assert "SLUICE_VAR_" in str(caught.value) and "SLUICE_VARIABLES" in str(caught.value)


@pytest.mark.parametrize("place", PLACES)
def test_a_variable_by_its_prefix_or_from_the_list(tmp_path, place):
    for name, more in (("SLUICE_VAR_X", ""), ("X", "Y, X"), ("X", "X Y"), ("SLUICE_HOME", "")):
        environment = {name: "demo.one", "SLUICE_VARIABLES": more}
        _, found = read(tmp_path, {place: PLACES[place] % f"${{{name}}}"}, environment)
        assert any("demo.one" in setting.value and name in setting.source for setting in found)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", SECRETS)
def test_a_name_of_a_secret_is_refused_wherever_values_are_shown(tmp_path, place, name):
    for full, more in ((name, name), (f"SLUICE_VAR_{name}", "")):
        with pytest.raises(WrongPipeline, match=rf"{place}.*: \$\{{{full}\}} is called like a") as caught:
            read(tmp_path, {place: PLACES[place] % f"${{{full}}}"}, {full: HUSH, "SLUICE_VARIABLES": more})
        assert HUSH not in str(caught.value)


@pytest.mark.parametrize("place", HIDDEN)
def test_secrets_stand_where_no_value_is_shown(tmp_path, place):
    changes = {place: HIDDEN[place] % "${SLUICE_VAR_MASK_KEY}"}
    pipeline, found = read(tmp_path, changes, {"SLUICE_VAR_MASK_KEY": HUSH})
    assert HUSH not in f"{pipeline.mask!r}{found}"
    with pytest.raises(WrongPipeline, match=r"\$\{MASK_KEY\} is not for pipeline files"):
        read(tmp_path, {place: HIDDEN[place] % "${MASK_KEY}"}, {"MASK_KEY": HUSH})


def test_the_folders_defaults_obey_too(tmp_path):
    (tmp_path / "_defaults.yaml").write_text("airflow: {owner: '${AUDIT_ENV}'}\n")
    with pytest.raises(WrongPipeline, match=r"_defaults\.yaml: airflow\.owner: \$\{AUDIT_ENV\} is not for"):
        read(tmp_path, {}, {"AUDIT_ENV": HUSH})
