from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.config import files
from sluice.errors import WrongPipeline, WrongUse

TEXT = """
kafka:
  - {cluster: dc1, bootstrap: "${SLUICE_VAR_KAFKA:-127.0.0.1:9092}", topics: [events]}
event:
  type: {field: type}
  time: {field: created_at}
lake: file://${SLUICE_VAR_ROOT}/lake
tables:
  click: events.clicks
  "*": events.other
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "github.yaml").write_text(TEXT)
    return tmp_path


def read(folder: Path, text: str, **environment: str):
    path = folder / "github.yaml"
    path.write_text(text)
    return files.read(path, {"SLUICE_VAR_ROOT": "var", **environment})


def test_names(folder: Path) -> None:
    (folder / "bids.yaml").write_text("")
    (folder / "notes.txt").write_text("")
    assert files.pipeline_names(folder) == ["bids", "github"]


def test_find(folder: Path) -> None:
    path = folder / "github.yaml"
    assert files.find("anything", path) == path
    with pytest.raises(WrongUse, match=r"no pipeline file .*nothing\.yaml; there are: .*--config FILE"):
        files.find("nothing", folder / "nothing.yaml")


def test_there_is_no_file_of_a_name_that_no_file_can_have(folder: Path, monkeypatch) -> None:
    for name, config in (("x" * 300, None), ("github", folder / ("x" * 300)), ("a\0b", None)):
        with pytest.raises(WrongUse, match=r"no pipeline file .*; there are: github"):
            files.find(name, config, folder)
    monkeypatch.setenv("SLUICE_PIPELINES", "x" * 300)
    with pytest.raises(WrongUse, match=r"no pipeline file .*x/github\.yaml; there are: none"):
        files.find("github")


def test_a_name_is_looked_up_where_the_environment_says_else_where_a_dag_file_does(folder, monkeypatch):
    usual, own = files.PROJECT / "include/pipelines", folder / "github.yaml"
    for given in ("", None):
        environment = {} if given is None else {"SLUICE_PIPELINES": given}
        assert files.pipelines_folder(None, environment) == usual
        assert files.pipelines_folder(folder, environment) == folder
    assert files.pipelines_folder(folder, {"SLUICE_PIPELINES": "mine"}) == files.PROJECT / "mine"
    assert files.find("github", named=folder) == own
    monkeypatch.setenv("SLUICE_PIPELINES", str(folder))
    assert files.find("github", named=usual) == files.find("github") == own
    with pytest.raises(WrongUse, match=rf"no pipeline file {folder}/ads\.yaml; there are: github; `--config"):
        files.find("ads", named=usual)


def test_the_project_is_where_the_pipelines_are() -> None:
    assert (files.PROJECT / "plugins" / "sluice" / "config" / "files.py").is_file()
    assert files.FOLDER.relative_to(files.PROJECT) == Path("include/pipelines")


def test_read(folder: Path) -> None:
    found = read(folder, TEXT)
    assert found.name == "github"
    assert found.lake == "file://var/lake"
    assert found.kafka[0].bootstrap == "127.0.0.1:9092"
    assert found.targets[0].types == ("click",)


@pytest.mark.parametrize(
    ("environment", "lake"),
    [
        ({}, "file://var/lake"),
        ({"SLUICE_VAR_HOME_": "/h"}, "file:///h/lake"),
        ({"SLUICE_VAR_LAKE": "s3://b/p", "SLUICE_VAR_HOME_": "/h"}, "s3://b/p"),
    ],
)
def test_a_default_may_hold_a_variable(folder: Path, environment: dict[str, str], lake: str) -> None:
    text = TEXT.replace(
        "file://${SLUICE_VAR_ROOT}/lake", '"${SLUICE_VAR_LAKE:-file://${SLUICE_VAR_HOME_:-var}/lake}"'
    )
    assert read(folder, text, **environment).lake == lake


def test_variables(folder: Path) -> None:
    found = read(folder, TEXT + "rows_per_read: ${SLUICE_VAR_N}\n", SLUICE_VAR_KAFKA="b:1", SLUICE_VAR_N="7")
    assert found.kafka[0].bootstrap == "b:1"
    assert found.rows_per_read == 7
    with pytest.raises(WrongPipeline, match="lake: the environment has no SLUICE_VAR_ROOT"):
        files.read(folder / "github.yaml", {"SLUICE_VAR_N": "7"})
    with pytest.raises(WrongPipeline, match=r"clickhouse\.connection: the environment has no SLUICE_VAR_CH"):
        read(folder, TEXT + "clickhouse: {connection: '${SLUICE_VAR_CH}'}\n")


@pytest.mark.parametrize(
    "start", ["2026-01-01T00:00Z", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01 02:00:00 +02:00"]
)
def test_start_as_yaml_has_it(folder: Path, start: str) -> None:
    assert read(folder, f"{TEXT}start: {start}\n").start == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at", "key", "expected"),
    [
        ("", "", "(file)", "expected a mapping"),
        ("- a\n", "", "(file)", "expected a mapping"),
        ("a: [\n", ":2:1", "(file)", "not YAML"),
        ("a: !!python/object:os.system {}\n", ":1:4", "(file)", "a YAML tag"),
        (TEXT + "name: other\n", "", "name", "named by its file: here 'github'"),
        (TEXT + "slices: 1h\n", ":11:1", "slices", "no such key: did you mean `slice`?"),
        (TEXT + "lake: file://other\n", ":11:1", "(file)", "not YAML: 'lake' is there twice"),
        (TEXT + "slice: 10m\n", ":11:1", "slice", "expected 15m … 1d"),
        (
            TEXT + "settle: yes\n",
            ":11:1",
            "settle",
            "expected a duration such as 90s, 15m, 1h or 7d, not true",
        ),
        (TEXT + "settle: 90\n", ":11:1", "settle", "expected a duration such as 90s, 15m, 1h or 7d, not 90"),
        (TEXT.replace("topics: [events]", "topics: events"), ":3:70", "kafka[0].topics", "expected a list"),
        (
            TEXT.replace("bootstrap", "bootstraps"),
            ":3:20",
            "kafka[0].bootstraps",
            "did you mean `bootstrap`?",
        ),
        (TEXT.replace("events.clicks", "clicks"), ":9:3", "tables.click.table", "expected database.table"),
        (
            TEXT.replace("  click:", "  true:"),
            ":8:1",
            "tables",
            "YAML reads a type as True: put it in quotes",
        ),
        (TEXT.replace('  "*"', "  click"), ":10:3", "(file)", "not YAML: 'click' is there twice"),
    ],
)
def test_mistakes_name_file_key_and_what_was_expected(
    folder: Path, text: str, at: str, key: str, expected: str
) -> None:
    with pytest.raises(WrongPipeline) as raised:
        read(folder, text)
    assert raised.value.file == str(folder / "github.yaml")
    assert raised.value.key == key
    assert expected in raised.value.expected
    assert str(raised.value).startswith(f"{folder}/github.yaml{at}: {key}: ")
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "latin.yaml").write_bytes(b"lake: \xff\xfe\n")
    with pytest.raises(WrongPipeline, match="not YAML"):
        files.read(folder / "latin.yaml")
    with pytest.raises(WrongPipeline, match="cannot be read: it is a folder, not a file"):
        files.read(folder)


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.ssl.keyPassword",
        "spark.authenticate.secret",
        "spark.hadoop.fs.s3a.session.token",
        "spark.kafka.clusters.a.sasl.credentials",
        "spark.hadoop.fs.azure.account.key.x.core.windows.net",
        "spark.hadoop.fs.azure.sas.container.account",
        "spark.hadoop.db.pwd",
        "spark.hadoop.jdbc.userPwd",
        "spark.hadoop.smtp.pass",
        "spark.hadoop.javax.jdo.option.ConnectionPass",
        "spark.jars.repositories.auth",
        "spark.hadoop.proxyAuth",
    ],
)
def test_a_secret_for_spark_is_refused_with_where_it_belongs(folder: Path, key: str) -> None:
    with pytest.raises(WrongPipeline, match=r": spark\..*ps.*spark-defaults\.conf") as caught:
        read(folder, f"{TEXT}spark: {{{key}: hush}}")
    assert "hush" not in str(caught.value)
    assert key in str(caught.value)


def test_a_secret_within_an_option_for_spark_is_refused(folder: Path) -> None:
    option = "-Xmx1g -Djavax.net.ssl.trustStorePassword=hush"
    with pytest.raises(WrongPipeline, match=r"extraJavaOptions: .*spark-defaults\.conf") as caught:
        read(folder, f"{TEXT}spark: {{spark.driver.extraJavaOptions: '{option}'}}")
    assert "hush" not in str(caught.value)


def test_what_is_about_a_secret_is_none(folder: Path) -> None:
    settings = {
        "spark.authenticate.secret.file": "/etc/spark/secret",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "com.example.Provider",
        "spark.hadoop.hadoop.security.credential.provider.path": "jceks://file/etc/spark.jceks",
        "spark.security.credentials.kafka.enabled": "false",
        "spark.kubernetes.authenticate.submission.oauthTokenFile": "/var/run/token",
        "spark.driver.extraJavaOptions": "-Xmx1g -Dfile.encoding=UTF-8",
        "spark.ssl.keyStore": "/etc/spark/store",
        "spark.ssl.needClientAuth": "true",
        "spark.hadoop.ssl.client.auth": "required",
        "spark.authenticate": "true",
        "spark.hadoop.auth.type": "SIMPLE",
        "spark.shuffle.sort.bypassMergeThreshold": "200",
        "spark.hadoop.cache.bypass": "true",
        "spark.hadoop.passive.mode": "true",
        "spark.local.dir": "${SLUICE_VAR_DIR}/tmp",
    }
    lines = "".join(f"  {key}: '{value}'\n" for key, value in settings.items())
    expected = settings | {"spark.local.dir": "/srv/sluice/tmp"}
    assert read(folder, f"{TEXT}spark:\n{lines}", SLUICE_VAR_DIR="/srv/sluice").spark == expected


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ("lake: '${SLUICE_VAR_PLACE}'", "lake"),
        ("lake: '${SLUICE_VAR_PLACE:-x}'", "lake"),
        ("settle: '${SLUICE_VAR_PLACE}'", "settle"),
    ],
)
def test_others_do_not_see_what_the_environment_says(folder: Path, wrong: str, key: str) -> None:
    text = TEXT.replace(
        "lake: file://${SLUICE_VAR_ROOT}/lake\n", "" if "lake" in wrong else "lake: file:///x\n"
    )
    with pytest.raises(WrongPipeline) as caught:
        read(folder, f"{text}{wrong}", SLUICE_VAR_PLACE="of the machine alone")
    assert "of the machine" not in caught.value.public
    assert f": {key}: wrong, and not shown" in caught.value.public
    assert "of the machine" in str(caught.value), "who has the machine sees it"


def test_others_see_what_the_file_itself_says_and_no_folder(folder: Path) -> None:
    with pytest.raises(WrongPipeline) as caught:
        read(folder, f"{TEXT}settle: soon")
    assert f"{folder}/{caught.value.public}" == str(caught.value)
    assert "'soon'" in caught.value.public


def test_what_is_no_file_is_named_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    for name, said in (("pipe", "it is a pipe"), ("folder", "it is a folder"), ("gone", "No such file")):
        with pytest.raises(WrongPipeline, match=said):
            files.read(files.find(name))
    with pytest.raises(WrongUse, match="no pipeline file"):
        files.find("other")


def test_defaults_that_are_a_link_to_nothing_are_not_none(tmp_path: Path):
    """The pools and rights that they set would vanish."""
    path = tmp_path / "ads.yaml"
    path.write_text(TEXT)
    assert files.read(path, {"SLUICE_VAR_ROOT": "var"}).name == "ads"
    (tmp_path / "_defaults.yaml").symlink_to(tmp_path / "nothing")
    with pytest.raises(
        WrongPipeline, match=r"_defaults\.yaml: \(file\): cannot be read: it is a link to nothing"
    ):
        files.read(path, {"SLUICE_VAR_ROOT": "var"})
