"""docker-compose.yaml: valid, in step with the pinned requirements, on loopback, free of secrets."""

import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from local import image_digests, versions
from tests.integration import s3_servers

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ONE_SHOT = {"prepare"}
FOREIGN = ("kafka", "clickhouse", "s3", "postgres")


def pinned(package: str) -> str:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return next(line.partition("==")[2].split()[0] for line in lines if line.startswith(f"{package}=="))


def base_image() -> str:
    assert SERVICES["prepare"]["build"] == "."
    [base] = [line.split()[1] for line in DOCKERFILE.splitlines() if line.startswith("FROM ")]
    return version_of(base)


def version_of(image: str) -> str:
    """`make pin-images` puts a digest behind it."""
    return image.partition("@")[0]


def check(file: Path) -> subprocess.CompletedProcess[str]:
    """By the specification's schema as check-jsonschema carries it: no network."""
    schema = ["--builtin-schema", "vendor.compose-spec"]
    command = [sys.executable, "-m", "check_jsonschema", *schema, str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_it_follows_the_compose_specification():
    checked = check(FILE)
    assert checked.returncode == 0, checked.stdout


def test_versions_are_those_of_the_requirements():
    assert base_image() == f"apache/airflow:{pinned('apache-airflow')}-python3.11"
    assert pinned("pyspark") == pinned("pyspark-client") == versions.SPARK
    assert version_of(SERVICES["kafka"]["image"]) == f"apache/kafka:{versions.KAFKA}"
    assert f".deps/{versions.SPARK_JARS_DIR.name} " in DOCKERFILE
    assert f".deps/{versions.SPARK_JARS_DIR.name} " in (ROOT / "Dockerfile.job").read_text()
    assert version_of(SERVICES["s3"]["image"]) == f"versity/versitygw:{s3_servers.VERSITYGW}"


def lint(file: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("hadolint"), "--no-color", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_dockerfile_has_nothing_that_its_linter_minds(tmp_path: Path):
    assert lint(ROOT / "Dockerfile").stdout == lint(ROOT / "Dockerfile.job").stdout == ""
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(DOCKERFILE.replace(" --no-install-recommends", ""))
    assert "DL3015" in lint(wrong).stdout


def test_what_the_image_leaves_out_is_not_what_it_runs():
    left_out = (ROOT / ".dockerignore").read_text().split()
    needed = {
        "dags",
        "include",
        "local",
        "monitoring",
        "plugins",
        "spark_jobs",
        "pyproject.toml",
        "README.md",
    }
    assert not needed & set(left_out)
    assert {".venv", ".git", "var"} <= set(left_out)


@pytest.mark.parametrize("name", SERVICES)
def test_images_have_a_version(name: str):
    assert re.fullmatch(r"[\w./-]+:v?\d+(\.\d+)+(@sha256:[0-9a-f]{64})?", SERVICES[name]["image"])


DOCKER = """\
#!/usr/bin/env python3
import hashlib, sys
assert sys.argv[1:6] == ["buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}"], sys.argv
print("sha256:" + hashlib.sha256(sys.argv[6].encode()).hexdigest())
"""


def test_every_image_can_be_pinned_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What docker says of an image is the hash of its name here. Pinned again, nothing changes."""
    docker, files = tmp_path / "docker", (tmp_path / "Dockerfile", tmp_path / "compose.yaml")
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for file, text in zip(files, (DOCKERFILE, FILE.read_text()), strict=True):
        file.write_text(text)
    for _ in range(2):
        image_digests.pin(files)
        assert check(files[1]).returncode == 0 and lint(files[0]).stdout == ""
        images = [line.split()[1] for line in files[0].read_text().splitlines() if line.startswith("FROM ")]
        images += [service["image"] for service in yaml.safe_load(files[1].read_text())["services"].values()]
        foreign = [image for image in images if not image.startswith("sluice:")]
        assert sorted(set(map(version_of, foreign))) == sorted(
            {base_image(), *(version_of(SERVICES[name]["image"]) for name in FOREIGN)}
        )
        for image in foreign:
            assert image == f"{version_of(image)}@sha256:{sha256(version_of(image).encode()).hexdigest()}"


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_only(name: str):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_every_lasting_service_says_whether_it_is_healthy(name: str):
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_dependencies_wait_for_health_or_completion():
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed in ONE_SHOT else "service_healthy"
            assert how["condition"] == expected


@pytest.mark.parametrize("name", SERVICES)
def test_secrets_come_from_the_environment(name: str):
    environment = SERVICES[name].get("environment", {})
    secret = re.compile(r"PASSWORD$|SECRET|ACCESS_KEY|S3_|FERNET_KEY|SQL_ALCHEMY_CONN|CLICKHOUSE_DEFAULT$")
    for key, value in environment.items():
        if secret.search(key):
            assert re.search(r"\$\{\w+:\?[^}]+\}", value), f"{key} has no ${{VARIABLE:?}}"


def test_the_server_takes_the_lakes_secrets_from_its_environment():
    content = ElementTree.fromstring(COMPOSE["configs"]["lake.xml"]["content"])
    [found] = content.find("named_collections")
    for key in ("access_key_id", "secret_access_key"):
        assert found.find(key).text is None
        assert found.find(key).get("from_env") in SERVICES["clickhouse"]["environment"]
    bucket = COMPOSE["x-airflow-environment"]["SLUICE_LAKE"].removeprefix("s3://").split("/")[0]
    assert found.find("url").text == f"{COMPOSE['x-lake']['AWS_ENDPOINT_URL']}/{bucket}/"


def test_no_secret_is_asked_for_without_a_reason():
    asked = re.findall(r"\$\{(\w+)(:\?[^}]+)?\}", FILE.read_text())
    assert asked
    assert all(reason for _, reason in asked)


# Whom each secret of the operator's environment may reach, and why.
STORE = {"S3_ACCESS_KEY", "S3_SECRET_KEY"}
AIRFLOW = {
    *STORE,
    *("POSTGRES_PASSWORD", "CLICKHOUSE_PASSWORD", "SPARK_SECRET"),
    *("AIRFLOW_FERNET_KEY", "AIRFLOW_JWT_SECRET", "AIRFLOW_API_SECRET"),
}
KNOWS = {
    "kafka": set(),
    "clickhouse": {"CLICKHOUSE_PASSWORD", *STORE},  # it reads the lake itself
    "s3": STORE,
    "postgres": {"POSTGRES_PASSWORD"},
    "prepare": {"POSTGRES_PASSWORD", "AIRFLOW_FERNET_KEY", *STORE},
    "spark-master": {"SPARK_SECRET"},
    "spark-worker": {"SPARK_SECRET", *STORE},  # its tasks write the lake
    **{f"airflow-{part}": AIRFLOW for part in ("api", "scheduler", "dag-processor", "triggerer")},
}


def variables(value: object) -> set[str]:
    return set(re.findall(r"\$\{(\w+)", str(value)))


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_gets_its_own_secrets_only(name: str):
    service = SERVICES[name]
    files = [COMPOSE["configs"][one["source"]] for one in service.get("configs", [])]
    assert variables(service) | variables(files) == KNOWS[name]


def test_no_two_secrets_have_one_value():
    """Each setting takes a variable of its own, where it is not a login to the same thing."""
    settings = COMPOSE["x-airflow-environment"]
    single = ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY")
    assert len(set().union(*(variables(settings[name]) for name in single))) == len(single)


def test_sparks_parts_know_each_other_by_a_secret():
    content = COMPOSE["configs"]["spark-defaults.conf"]["content"]
    conf = dict(line.split(" ", 1) for line in content.splitlines())
    assert (conf["spark.authenticate"], conf["spark.network.crypto.enabled"]) == ("true", "true")
    assert re.fullmatch(r"\$\{SPARK_SECRET:\?[^}]+\}", conf["spark.authenticate.secret"])
    for name in ("spark-master", "spark-worker", "airflow-scheduler"):
        [mounted] = SERVICES[name]["configs"]
        folder = SERVICES[name]["environment"]["SPARK_CONF_DIR"]
        assert mounted == {"source": "spark-defaults.conf", "target": f"{folder}/spark-defaults.conf"}
