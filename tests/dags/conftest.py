"""Airflow's own web server with the page, for all tests of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow import plugins_manager
from airflow.api_fastapi.app import create_app, purge_cached_app
from airflow.utils.db import initdb
from fastapi.testclient import TestClient

from sluice.page.status_cache import TimedCache
from tests.dags.pipeline_texts import NO_TABLES, WRONG_TABLE

PLUGINS = Path(__file__).parents[2] / "plugins"


@pytest.fixture(scope="module")
def airflow_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Airflow's whole web server over two pipeline files, one of them wrong; nothing else is up."""
    folder = tmp_path_factory.mktemp("pipelines")
    away = 'clickhouse: {connection: nowhere}\ntables: {"*": a.b}\n'
    text = NO_TABLES.replace("file:///lake", f"file://{folder}/lake").replace("127.0.0.1:9092", "127.0.0.1:1")
    (folder / "ads.yaml").write_text(text.replace("slice: 15m\n", away))
    (folder / "wrong.yaml").write_text(WRONG_TABLE)
    (folder / "expanded.yaml").write_text(NO_TABLES + "tables: {click: '${SLUICE_VAR_OF_THE_MACHINE}'}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_VAR_OF_THE_MACHINE", "hush hush")
        patch.setenv("AIRFLOW_CONN_NOWHERE", "http://127.0.0.1:1")
        patch.setenv("SLUICE_PIPELINES", str(folder))
        patch.setattr("sluice.clients.kafka.settings.BOOTSTRAP_MS", 500)
        initdb()
        plugins_manager._get_plugins.cache_clear()
        purge_cached_app()
        app = create_app("core")
        forget_answers()
        yield TestClient(app, raise_server_exceptions=False)
    purge_cached_app()
    plugins_manager._get_plugins.cache_clear()


def forget_answers() -> None:
    """Empties the page's caches: a file's tests get no answer about the pipeline of the file before, which
    has the same name."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("sluice.airflow.api."):
            for cache in [value for value in vars(module).values() if isinstance(value, TimedCache)]:
                cache.kept.clear()
