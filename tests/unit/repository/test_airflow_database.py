"""The embedded stack's Airflow beside itself on SQLite: what one process reads, another one changes."""

import importlib.util
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from local.environment import AIRFLOW_SETTINGS

READ = text("SELECT count(*) FROM runs")
WRITE = text("INSERT INTO runs VALUES ('ours')")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "airflow.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # as Airflow's
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("CREATE TABLE runs (whose TEXT)")
    return file


@pytest.fixture
def scheduler(file: Path) -> Iterator[Callable[[], object]]:
    """Another process's write, which does not wait."""
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        yield lambda: connection.execute("INSERT INTO runs VALUES ('theirs')")


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    spec = importlib.util.spec_from_file_location("of_stack", AIRFLOW_SETTINGS / "airflow_local_settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    engine = module.create_metadata_engine(f"sqlite:///{file}", engine_args={}, connect_args={})
    yield engine
    engine.dispose()


def runs(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return sorted(whose for (whose,) in connection.execute("SELECT whose FROM runs"))


def test_sqlite_alone_refuses_a_write_after_anothers(file: Path, scheduler):
    """What there is to be cured."""
    engine = create_engine(f"sqlite:///{file}")
    with Session(engine) as session:
        session.begin_nested()
        session.execute(READ)
        scheduler()
        with pytest.raises(OperationalError, match="database is locked"):
            session.execute(WRITE)
    engine.dispose()
    assert runs(file) == ["theirs"]


def test_who_begins_to_write_keeps_the_others_waiting(file: Path, engine: Engine, scheduler):
    with Session(engine) as session:
        with session.begin_nested():
            session.execute(READ)
            with pytest.raises(sqlite3.OperationalError, match="database is locked"):
                scheduler()
            session.execute(WRITE)
        scheduler()
        session.commit()
    assert runs(file) == ["ours", "theirs"]


def test_what_is_taken_back_is_gone_and_keeps_nobody(file: Path, engine: Engine, scheduler):
    with Session(engine) as session:
        nested = session.begin_nested()
        session.execute(WRITE)
        nested.rollback()
        session.rollback()
        scheduler()
    assert runs(file) == ["theirs"]


def test_a_savepoint_within_a_transaction_is_only_that(file: Path, engine: Engine, scheduler):
    with Session(engine) as session:
        session.execute(WRITE)
        with session.begin_nested():
            session.execute(WRITE)
        assert runs(file) == []
        session.commit()
    scheduler()
    assert runs(file) == ["ours", "ours", "theirs"]


def test_reading_keeps_nobody_waiting(file: Path, engine: Engine, scheduler):
    with Session(engine) as session:
        assert session.scalar(READ) == 0
        scheduler()
        assert session.scalar(READ) == 1
