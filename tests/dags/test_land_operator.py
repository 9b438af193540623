"""The `land` task against a spark-submit that writes down what it was given."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from structlog.testing import capture_logs

from local.readiness import wait_until
from sluice.airflow.land_operator import CommandAtDebug, LandOperator
from sluice.flow import steps
from tests.dags.pipeline_texts import TWO_TABLES

SPARK_SUBMIT = f"""#!{sys.executable}
import json, os, pathlib, signal, sys
seen = {{"arguments": sys.argv[1:], "environment": dict(os.environ)}}
half = pathlib.Path(os.environ["SEEN"] + ".half")
half.write_text(json.dumps(seen))
half.rename(os.environ["SEEN"])
print(os.environ.get("SAY", ""))
if "WAIT" in os.environ:
    signal.pause()
code = int(os.environ.get("CODE", "0"))
os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)
"""
SECRET = "correct-horse"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ads.yaml").write_text(TWO_TABLES)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DC2", '{"conn_type": "kafka", "extra": {"bootstrap.servers": "k:9092"}}'
    )
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_STORE", json.dumps({"conn_type": "aws", "password": SECRET}))
    monkeypatch.setattr(steps, "spark_submit_arguments", arguments)
    # There is no lake here to count in: tests/integration/watch/test_observed.py does, on a real one.
    monkeypatch.setattr(steps, "counted_landing", lambda *_, **__: nullcontext())


def arguments(pipeline, config, slices, mode, token, cluster, accept_loss) -> SimpleNamespace:
    return SimpleNamespace(
        application="land.py",
        application_args=[pipeline.name, config.name, str(slices), mode, token],
        conf={"spark.executor.memory": "2g"},
        jars=["a.jar", "b.jar"],
        py_files=["library.zip"],
        env_vars={"OWN": "yes"},
    )


def land_task(tmp_path: Path, connection: str = "spark_default") -> LandOperator:
    batch = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z"}
    return LandOperator(task_id="land", pipeline="ads", connection=connection, batch=batch)


def run(tmp_path: Path, mode: str = "fill", connection: str = "spark_default") -> tuple[LandOperator, dict]:
    land = land_task(tmp_path, connection)
    land.execute({"params": {"mode": mode}, "run_id": "run 7"})
    return land, json.loads((tmp_path / "seen.json").read_text())


def test_what_spark_submit_is_given(tmp_path: Path):
    _, seen = run(tmp_path, mode="reland")
    given = seen["arguments"]
    assert given[-6:] == [
        "land.py",
        "ads",
        "ads.yaml",
        "[2026-11-20T10:00Z, 2026-11-20T12:00Z)",
        "reland",
        "run 7",
    ]
    assert given[given.index("--master") + 1] == "local[2]"
    assert given[given.index("--jars") + 1] == "a.jar,b.jar"
    assert given[given.index("--py-files") + 1] == "library.zip"
    assert given[given.index("--conf") + 1] == "spark.executor.memory=2g"
    assert seen["environment"]["OWN"] == "yes"


@pytest.mark.parametrize(
    ("base", "begins"),
    [("https://airflow.example.com/base/", "https://airflow.example.com/base/plugin"), ("", "/plugin")],
)
def test_a_link_of_the_task_leads_to_its_hours(tmp_path: Path, monkeypatch, base: str, begins: str):
    """Airflow stores it when the task has ended, and shows it by the class's name."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    land = land_task(tmp_path)
    (link,) = land.operator_extra_links
    assert link.get_link(land, ti_key=None) == (
        f"{begins}/sluice#/p/ads?from=2026-11-20T10%3A00%3A00Z&to=2026-11-20T12%3A00%3A00Z"
    )
    land.batch = "not rendered"
    assert link.get_link(land, ti_key=None) == f"{begins}/sluice#/p/ads"


def test_secrets_are_in_the_environment_only(tmp_path: Path):
    land, seen = run(tmp_path)
    assert json.loads(seen["environment"]["AIRFLOW_CONN_LAKE_STORE"])["password"] == SECRET
    assert SECRET not in " ".join(seen["arguments"])
    assert land.env_vars is None
    assert SECRET not in repr({name: getattr(land, name) for name in land.template_fields})


def test_a_missing_spark_connection_is_no_yarn(tmp_path: Path):
    with pytest.raises(AirflowFailException, match="no Spark connection 'spark_elsewhere'"):
        run(tmp_path, connection="spark_elsewhere")
    assert not (tmp_path / "seen.json").exists()


def test_a_driver_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    elsewhere = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(elsewhere))
    with pytest.raises(AirflowFailException, match="deploy-mode cluster"):
        run(tmp_path)


def test_an_error_that_the_application_expected_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CODE", "3")
    monkeypatch.setenv("SAY", "error: Kafka cluster 'dc1' has no topic 'bids'")
    with pytest.raises(AirflowFailException, match=r"^landing: Kafka cluster 'dc1' has no topic 'bids'$"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        (
            -9,
            "26/11/20 WARN heap",
            "landing: Spark was killed by SIGKILL: by an operator, or for want of memory",
        ),
        (137, "", "landing: Spark was killed by SIGKILL: "),
        (143, "", "landing: Spark was killed by SIGTERM: "),
        (75, "error: Kafka is away", "landing: Kafka is away"),
        (1, "KeyError: 'a'", "landing: Spark ended with exit code 1, and said last: KeyError: 'a'"),
        (1, "", "landing: Spark ended with exit code 1"),
    ],
)
def test_spark_that_ends_is_one_line_and_its_command_is_for_who_debugs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str, line: str
):
    monkeypatch.setenv("CODE", str(code))
    monkeypatch.setenv("SAY", said)
    with capture_logs() as logs, pytest.raises(AirflowException) as raised:
        run(tmp_path)
    told = str(raised.value)
    assert told.startswith(line) and "\n" not in told and len(told) < 250
    assert raised.value.__suppress_context__
    shown = [str(one) for one in logs if one["log_level"] != "debug"]
    assert not [one for one in shown if "spark.executor.memory" in one]
    assert any(said in one for one in shown)


def test_only_the_command_is_of_level_debug():
    log = Mock()
    quiet = CommandAtDebug(log)
    quiet.info("Spark-Submit cmd: %s", "spark-submit …")
    quiet.info("a line of Spark's")
    quiet.warning("w")
    assert log.mock_calls == [
        call.debug("Spark-Submit cmd: %s", "spark-submit …"),
        call.info("a line of Spark's"),
        call.warning("w"),
    ]


@pytest.mark.parametrize(
    ("code", "said"), [(75, "error: Kafka is away"), (1, "KeyError: 'a'"), (137, ""), (-9, "error: half")]
)
def test_any_other_end_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, said: str
):
    monkeypatch.setenv("CODE", str(code))
    monkeypatch.setenv("SAY", said)
    with pytest.raises(AirflowException) as raised:
        run(tmp_path)
    assert not isinstance(raised.value, AirflowFailException)


def test_a_killed_task_ends_its_spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAIT", "1")
    land = land_task(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(land.execute, {"params": {}, "run_id": "run 7"})
        wait_until((tmp_path / "seen.json").exists, "spark-submit has started", 30)
        land.on_kill()
        with pytest.raises(AirflowException, match="killed by SIGKILL"):
            running.result(timeout=30)
