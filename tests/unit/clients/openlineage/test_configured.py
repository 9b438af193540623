"""Off without a configuration, which is the OpenLineage client's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.clients.openlineage.delivery import Parent, RunOfJob, configured, namespace, parent

RUN = "0194a7b2-0000-7000-8000-000000000001"
ROOT = "0194a7b2-0000-7000-8000-000000000002"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_NAMESPACE": "ads"}, False),
        ({"OPENLINEAGE_URL": "http://host:5000"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "http"}, True),
        ({"OPENLINEAGE__TRANSPORT": '{"type": "http"}'}, True),
        ({"OPENLINEAGE_URL": "http://host:5000", "OPENLINEAGE_DISABLED": "true"}, False),
        ({"OPENLINEAGE_URL": "http://host:5000", "OPENLINEAGE_DISABLED": "false"}, True),
        ({"OPENLINEAGE_CONFIG": "/is/not/there.yml"}, False),
    ],
)
def test_by_the_environment(environment: dict[str, str], expected: bool):
    assert configured(environment) is expected


@pytest.mark.parametrize("place", ["openlineage.yml", ".openlineage/openlineage.yml", "named.yml"])
def test_by_a_file(place: str, tmp_path: Path):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    assert not configured({"OPENLINEAGE_CONFIG": str(tmp_path / "named.yml")})
    path.write_text("transport: {type: http, url: http://host:5000}")
    assert configured({"OPENLINEAGE_CONFIG": str(tmp_path / "named.yml")})


def test_jobs_are_in_the_namespace_that_is_named():
    assert namespace({}) == "default"
    assert namespace({"OPENLINEAGE_NAMESPACE": "ads"}) == "ads"


def test_a_run_that_started_this_process_is_its_parent():
    own = RunOfJob("http://airflow/prod", "dag.task", RUN)
    root = RunOfJob("prod", "dag", ROOT)
    given = {"OPENLINEAGE_PARENT_ID": f"http://airflow/prod/dag.task/{RUN}"}
    assert parent(given) == Parent(own, own)
    assert parent({**given, "OPENLINEAGE_ROOT_PARENT_ID": f"prod/dag/{ROOT}"}) == Parent(own, root)


@pytest.mark.parametrize("text", ["", "job", "ns/job/no-uuid", f"job/{RUN}"])
def test_a_parent_in_another_form_is_none(text: str):
    assert parent({"OPENLINEAGE_PARENT_ID": text}) is None


def test_nothing_needs_the_client_where_nothing_is_configured():
    """It is an extra: without it the steps run all the same."""
    code = "import sys; sys.modules['openlineage'] = None; import sluice.flow.steps, sluice.flow.lineage"
    env = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
