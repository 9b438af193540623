"""What the wheel brings into Airflow: plugin, provider, the public function, and that it is the only copy."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import airflow
import jsonschema
import pytest
import typer
from airflow.providers_manager import ProvidersManager
from airflow.sdk import DAG, BaseNotifier

from sluice.airflow import copies, pipeline_dags, raise_mistakes
from sluice.airflow.plugin import SluicePage
from sluice.airflow.provider import get_provider_info
from sluice.cli.airflow_files import dags as print_dags
from sluice.errors import WrongUse
from tests.dags.pipeline_texts import NO_TABLES, WRONG_TABLE
from tests.support.documents import samples

NAMES = ("ads_eu", "ads_us", "clicks")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.yaml").write_text(NO_TABLES)
    (tmp_path / "ads_wrong.yaml").write_text(WRONG_TABLE)
    return tmp_path


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ({}, NAMES),
        ({"include": ["ads_*"]}, NAMES[:2]),
        ({"include": "ads_*"}, NAMES[:2]),
        ({"exclude": ["ads_u?", "clicks"]}, NAMES[:1]),
        ({"include": ["ads_*", "clicks"], "exclude": ["*_eu"]}, NAMES[1:]),
        ({"include": []}, ()),
    ],
)
def test_a_dag_file_takes_some_of_the_pipelines(folder: Path, selected: dict, expected: tuple[str, ...]):
    wanted = {f"{name}{kind}" for name in expected for kind in ("", "_backfill", "_watch")}
    assert set(pipeline_dags(folder, **selected)) == set(pipeline_dags(str(folder), **selected)) == wanted


def test_mistakes_are_those_of_the_pipelines_that_are_taken(folder: Path):
    with pytest.raises(WrongUse, match="^1 pipeline file is wrong: "):
        raise_mistakes(folder, include=["ads_*"])
    raise_mistakes(folder, exclude=["ads_*"])
    raise_mistakes(folder, include="clicks")


def test_the_printed_files_make_the_dags_and_tell_the_mistakes(folder: Path, tmp_path: Path, capsys):
    place = tmp_path / "checkout"
    place.mkdir()
    (place / "mine").symlink_to(folder, target_is_directory=True)
    for name, errors in (("dags.py", False), ("errors.py", True)):
        print_dags(folder="mine", errors=errors)
        (place / name).write_text(capsys.readouterr().out)
    made = runpy.run_path(str(place / "dags.py"))
    assert {f"{name}_watch" for name in NAMES} <= set(made)
    with pytest.raises(WrongUse, match="^1 pipeline file is wrong: "):
        runpy.run_path(str(place / "errors.py"))


@pytest.mark.parametrize("folder", ["", "..", "a/b", 'a"""', ".hidden", "a b"])
def test_a_printed_file_names_a_folder_plainly(folder: str):
    with pytest.raises(typer.BadParameter, match="expected the plain name of a folder"):
        print_dags(folder=folder, errors=False)


def test_the_guides_samples_make_dags(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs/guide/airflow.md").read_text()
    written = [sample.text for sample in samples(page) if sample.language == "python"]
    assert written
    for name in ("ads_eu", "ads_old", "clicks"):
        (tmp_path / "pipelines").mkdir(exist_ok=True)
        (tmp_path / f"pipelines/{name}.yaml").write_text(NO_TABLES)
    (tmp_path / "dags.py").write_text(written[0])
    made = {
        name for name, value in runpy.run_path(str(tmp_path / "dags.py")).items() if isinstance(value, DAG)
    }
    assert made == {"ads_eu", "ads_eu_backfill", "ads_eu_watch"}


def test_importing_the_public_function_imports_no_airflow():
    code = "import sys, sluice.airflow; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.split(".")[0] for name in ran.stdout.split()}
    assert not {"airflow", "pydantic", "yaml", "pendulum"} & modules


def test_airflow_knows_the_provider_as_its_schema_has_it():
    schema = json.loads(Path(airflow.__path__[0], "provider_info.schema.json").read_text())
    own = get_provider_info()
    jsonschema.validate(own, schema)
    assert ProvidersManager().providers["sluice"].data | own == {**own, "documentation-url": None}
    for name in get_provider_info()["notifications"]:
        assert issubclass(EntryPoint(name, name.replace(".Web", ":Web"), "").load(), BaseNotifier)
    assert set(own["extra-links"]) <= set(ProvidersManager().extra_links_class_names)


def test_the_page_is_an_entry_point():
    (entry,) = (one for one in metadata.entry_points(group="airflow.plugins") if one.name == "sluice")
    assert entry.load() is SluicePage


def test_a_started_process_holds_nothing_that_an_upgrade_replaces(tmp_path: Path):
    """Scheduler, workers and DAG processor load plugin and provider, and fork for each task: what they have
    imported stays old when another wheel is installed, and the task imports the rest of that one."""
    code = (
        "import sys\n"
        "from airflow import plugins_manager\n"
        "from airflow.providers_manager import ProvidersManager\n"
        "plugins_manager._get_plugins(), ProvidersManager().providers\n"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'sluice'))"
    )
    environment = {**os.environ, "AIRFLOW__CORE__PLUGINS_FOLDER": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    kept = {f"sluice.airflow.{name}" for name in ("copies", "plugin", "provider")}
    assert set(ran.stdout.splitlines()[-1].split()) == {"sluice", "sluice.airflow"} | kept


def library(folder: Path) -> Path:
    (folder / "sluice").mkdir(parents=True)
    (folder / "sluice/__init__.py").write_text("")
    return folder / "sluice"


def test_which_copy_is_the_second(tmp_path: Path):
    plugins, site = library(tmp_path / "plugins"), library(tmp_path / "site")
    nothing = tmp_path / "nothing"
    assert copies.second_copy(tmp_path / "plugins", site, site) == plugins
    assert copies.second_copy(tmp_path / "plugins", plugins, site) == site
    assert copies.second_copy(nothing, site, site) is None
    assert copies.second_copy(tmp_path / "plugins", plugins, None) is None
    # An editable install: site-packages has a .pth and no folder.
    assert copies.second_copy(tmp_path / "plugins", plugins, nothing / "sluice") is None
    (tmp_path / "link").symlink_to(site.parent)
    assert copies.second_copy(tmp_path / "link", site, site) is None


def test_wheel_and_folder_together_are_one_clear_error(folder: Path, tmp_path: Path, monkeypatch):
    copied = library(tmp_path / "plugins")
    monkeypatch.setenv("AIRFLOW__CORE__PLUGINS_FOLDER", str(copied.parent))
    told = rf"^two copies of sluice: {copies.PACKAGE} is imported, and there is {copied}; install the wheel"
    for used in (lambda: pipeline_dags(folder), SluicePage.on_load):
        with pytest.raises(WrongUse, match=told):
            used()
    (copied / "__init__.py").unlink()
    assert pipeline_dags(folder)
