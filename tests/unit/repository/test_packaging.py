"""What the wheel declares: every import of the library, at versions that the pins satisfy; one version."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.versions import SPARK_KAFKA_JARS
from tests.unit.repository.test_imports import imported

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [Requirement(text) for text in PROJECT["dependencies"]]
OPTIONAL = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]
SETUPS = ("local/cluster/setup.sh", "local/documents/setup.sh")
# Where a module and its package have different names.
PACKAGES = {
    "google": "protobuf",
    "grpc_tools": "grpcio-tools",
    "kafka": "kafka-python",
    "openlineage": "openlineage-python",
    "yaml": "pyyaml",
}


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    found = (line.split(";")[0].rstrip(" \\").partition("==") for line in lines if "==" in line)
    return {canonicalize_name(name.split("[")[0]): version for name, _, version in found}


@pytest.mark.parametrize("part", ["", "-dev", "-cluster", "-setup", "-docs"])
def test_every_pin_has_hashes_and_none_names_a_registry(part: str):
    """What is installed with --require-hashes, uv itself included."""
    text = (ROOT / f"requirements{part}.txt").read_text()
    entries = [entry for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", text) if "==" in entry]
    asked = re.findall(r"(?m)^([a-z0-9-]+)", (ROOT / f"requirements{part}.in").read_text())
    assert len(entries) >= len(asked) > 0
    for entry in entries:
        hashes = r"[\w.-]+==[\w.!+]+( ; [^\\]+)?( \\\n +--hash=sha256:[0-9a-f]{64})+\n"
        assert re.fullmatch(hashes, entry), entry.splitlines()[0]
    assert "://" not in text


@pytest.mark.parametrize("script", ["local/setup.sh", *SETUPS, "Dockerfile", "Dockerfile.job"])
def test_nothing_is_installed_without_its_hash(script: str):
    lines = (ROOT / script).read_text().replace("\\\n", " ").splitlines()
    installs = [line for line in lines if re.search(r"pip install", line)]
    assert installs
    for line in installs:
        own = re.search(r"pip install .*(-e \.|--no-index dist/\*\.whl)", line)  # the repository itself
        alone = own and "--no-deps" in line and "--no-build-isolation" in line
        assert line.count("pip install") == line.count("--require-hashes") or alone


def test_the_slim_image_has_the_pins_of_the_other_and_no_airflow():
    text = (ROOT / "requirements-job.txt").read_text()
    slim = {canonicalize_name(name): version for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", text)}
    assert slim.items() <= pins().items()
    spark = {Requirement(one).name for one in PROJECT["optional-dependencies"]["spark"]}
    assert {canonicalize_name(one.name) for one in DECLARED} | spark <= slim.keys()
    assert not [name for name in slim if "airflow" in name]


def library() -> list[Path]:
    """What runs only where Airflow is takes what it imports from there."""
    alone = re.compile(r"sluice/airflow/|/clients/connections\.py$")
    return [path for path in (ROOT / "plugins/sluice").rglob("*.py") if not alone.search(str(path))]


def test_every_import_of_the_library_is_declared():
    """Those of the extra are imported where a transport of OpenLineage is configured."""
    extra = {Requirement(text).name for text in PROJECT["optional-dependencies"]["lineage"]}
    imports = (imported(path, for_types=False) for path in library())
    modules = set.union(*imports) - set(sys.stdlib_module_names) - {"sluice"}
    needed = {canonicalize_name(PACKAGES.get(module, module)).replace("_", "-") for module in modules}
    assert needed == {canonicalize_name(one.name) for one in DECLARED} | extra


def test_spark_and_its_client_are_of_one_version():
    """The second one's files overwrite the first one's."""
    pinned = {one.name: str(one.specifier) for one in OPTIONAL if one.name.startswith("pyspark")}
    assert pinned == {"pyspark": f"=={pins()['pyspark']}", "pyspark-client": f"=={pins()['pyspark']}"}


def test_the_guide_fetches_the_jars_that_the_stack_runs_on():
    page = (ROOT / "docs/guide/airflow.md").read_text()
    named = re.findall(r'"(\S+) (\S+) (\d\S+)"', page)
    assert sorted(named) == sorted((jar.organisation, jar.name, jar.version) for jar in SPARK_KAFKA_JARS)


def test_extras_are_what_the_airflow_room_imports_and_what_the_embedded_stack_has_beside():
    """FastAPI, SQLAlchemy and what else comes with Airflow itself."""
    room = "".join(path.read_text() for path in (ROOT / "plugins/sluice/airflow").rglob("*.py"))
    providers = set(
        re.findall(r"from airflow\.providers\.([a-z_.]+)\.(?:operators|hooks|notifications)", room)
    )
    assert providers == {"apache.spark"}
    extras = PROJECT["optional-dependencies"]
    named = {name: {Requirement(text).name for text in texts} for name, texts in extras.items()}
    assert {"apache-airflow", "apache-airflow-providers-apache-spark"} <= named["airflow"]
    asked = set(re.findall(r"(?m)^([a-z0-9-]+)", (ROOT / "requirements.in").read_text()))
    library = {canonicalize_name(one.name) for one in DECLARED}
    assert set.union(*named.values()) | library >= asked


@pytest.mark.parametrize("one", [*DECLARED, *OPTIONAL], ids=lambda one: one.name)
def test_the_pins_satisfy_what_is_declared(one: Requirement):
    assert one.specifier.contains(pins()[canonicalize_name(one.name)])


def test_the_version_is_the_same_wherever_it_has_to_stand():
    stated = re.search(r'^__version__ = "(.+)"$', (ROOT / "plugins/sluice/__init__.py").read_text(), re.M)[1]
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    compose = (ROOT / "docker-compose.yaml").read_text()
    assert re.findall(r"image: sluice:(\S+)", compose) == [stated]
    newest = re.search(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is None or newest[1] == stated
