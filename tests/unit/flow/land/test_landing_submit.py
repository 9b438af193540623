"""What spark-submit is given: no secret on its command line, and a clear word when something is missing."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sluice.errors import WrongUse
from sluice.flow.land import submit
from sluice.flow.land.submit import Running, run_locally, spark_submit_arguments
from tests.support.landing_world import hours, pipeline

NAMES = (
    "spark-sql-kafka-0-10_2.13-0",
    "spark-token-provider-kafka-0-10_2.13-0",
)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch) -> dict[str, str]:
    for name in (*NAMES, "kafka-clients-0", "commons-pool2-0"):
        (tmp_path / f"{name}.jar").touch()
    secret = {"conn_type": "kafka", "login": "me", "password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_FEED", json.dumps(secret))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[3]"}))
    return {"SLUICE_SPARK_JARS": str(tmp_path)}


def test_the_command(environment):
    spec = pipeline(
        kafka=[{"cluster": "dc1", "connection": "feed", "topics": ["t"]}], spark={"spark.driver.memory": "7g"}
    )
    found = spark_submit_arguments(spec, Path("demo.yaml"), hours(2), "fill", "abc", environment)
    words = found.command()
    assert words[:2] == ["--master", "local[3]"]
    assert words[-8:] == [
        *("--from", "2026-01-01T00:00:00+00:00", "--to", "2026-01-01T02:00:00+00:00"),
        *("--mode", "fill", "--token", "abc"),
    ]
    assert [Path(jar).name for jar in found.jars][:2] == [f"{name}.jar" for name in NAMES]
    assert "spark.driver.memory=7g" in words and found.conf["spark.ui.enabled"] == "false"
    assert "hunter2" not in " ".join([*words, *found.env_vars.values()])


@pytest.mark.parametrize(
    "option", ["kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.ssl.key.password"]
)
def test_secret_options_are_redacted(environment, option):
    found = spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    pattern = found.conf["spark.sql.redaction.options.regex"]
    assert re.search(pattern, option)
    assert not re.search(pattern, "kafka.bootstrap.servers")


def test_a_token_endpoint_is_allowed_in_driver_and_executors(environment, monkeypatch):
    extra = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    }
    feed = {"conn_type": "kafka", "login": "me", "password": "hunter2", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_FEED", json.dumps(feed))
    spec = pipeline(
        kafka=[{"cluster": "dc1", "connection": "feed", "topics": ["t"]}],
        spark={"spark.executor.extraJavaOptions": "-Da=b"},
    )
    found = spark_submit_arguments(spec, Path("x"), hours(1), "fill", "t", environment)
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://issuer.example/token"
    assert found.conf["spark.executor.extraJavaOptions"] == f"-Da=b {allowed}"
    driver = found.conf["spark.driver.extraJavaOptions"]
    assert driver.startswith("-Dlog4j2.configurationFile=") and driver.endswith(f" {allowed}")
    assert "hunter2" not in " ".join([*found.command(), *found.env_vars.values()])


def test_missing_jars_are_named(tmp_path, environment):
    with pytest.raises(WrongUse, match="make setup"):
        spark_submit_arguments(
            pipeline(), Path("x"), hours(1), "fill", "t", {"SLUICE_SPARK_JARS": str(tmp_path / "none")}
        )


def test_a_jar_that_is_not_the_published_one_is_refused(tmp_path, environment):
    """By its name it is the broker's client 3.9.2, and 16 bytes long."""
    damaged = tmp_path / "kafka-clients-3.9.2.jar"
    damaged.write_bytes(bytes(16))
    with pytest.raises(WrongUse) as refused:
        spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    found = "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb"  # sha256sum of 16 zero bytes
    assert str(refused.value).startswith(f"{damaged} is not the jar that was published: expected SHA-256 ")
    assert f"found {found}; remove it and fetch it again" in str(refused.value)


def test_lines_errors_and_the_exit_code_are_passed_on(environment, tmp_path, monkeypatch, capsys):
    script = tmp_path / "spark-submit"
    script.write_text('#!/bin/sh\necho "reading"\necho "error: no such hour"\necho \'{"a": 1}\'\nexit 75\n')
    script.chmod(0o755)
    monkeypatch.setattr(submit, "_binary", lambda: str(script))
    monkeypatch.setenv("JAVA_HOME", "/anywhere")
    lines: list[str] = []
    spec = spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    assert run_locally(spec, lines.append) == 75
    assert lines == ["reading"]
    assert capsys.readouterr().err == "error: no such hour\n"


def test_a_machine_without_spark_is_told_so(environment, tmp_path, monkeypatch):
    monkeypatch.setattr(submit.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "/anywhere")
    spec = spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    with pytest.raises(WrongUse, match=r"no spark-submit found.*sluice\[spark\]"):
        run_locally(spec, lambda line: None)


def test_an_interruption_stops_the_application_and_its_workers(environment, tmp_path, monkeypatch):
    script = tmp_path / "spark-submit"
    script.write_text(f"#!/bin/sh\necho $$\n{sys.executable} -c 'import time; time.sleep(600)' & wait\n")
    script.chmod(0o755)
    monkeypatch.setattr(submit, "_binary", lambda: str(script))
    monkeypatch.setenv("JAVA_HOME", "/anywhere")
    group: list[int] = []

    def interrupted(line: str) -> None:
        group.append(int(line))
        raise KeyboardInterrupt

    spec = spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    with pytest.raises(KeyboardInterrupt):
        run_locally(spec, interrupted)
    deadline = time.monotonic() + 10
    while running(group[0]):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("before", [False, True], ids=["while it runs", "before it has begun"])
def test_another_thread_stops_it(environment, tmp_path, monkeypatch, before):
    script = tmp_path / "spark-submit"
    script.write_text("#!/bin/sh\necho $$\nsleep 600 & wait\n")
    script.chmod(0o755)
    monkeypatch.setattr(submit, "_binary", lambda: str(script))
    monkeypatch.setenv("JAVA_HOME", "/anywhere")
    spec = spark_submit_arguments(pipeline(), Path("x"), hours(1), "fill", "t", environment)
    held, groups, began = Running(), [], threading.Event()

    def note(line: str) -> None:
        groups.append(int(line))
        began.set()

    if before:
        held.stop()
    with ThreadPoolExecutor(1) as other:
        code = other.submit(run_locally, spec, note, held)
        assert before or began.wait(10)
        held.stop()
        assert code.result(10) != 0
    deadline = time.monotonic() + 10
    while any(running(group) for group in groups):
        assert time.monotonic() < deadline


def running(group: int) -> list[psutil.Process]:
    """The processes of the group that are more than a line in the table of processes."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
