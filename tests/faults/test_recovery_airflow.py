"""Airflow's database is lost and made anew: nothing of what is done is in it alone."""

from __future__ import annotations

import pytest

from tests.integration.airflow.test_airflow import Stack, expected_rows, stack

pytestmark = [pytest.mark.faults, pytest.mark.long]  # Airflow and Spark for a minute
assert stack


def test_airflows_database_is_lost(stack: Stack):
    done, said = stack.backfill()
    assert done, said
    landed = stack.files()
    assert stack.rows() == expected_rows()

    for path in stack.home.glob("airflow.db*"):
        path.unlink()
    assert stack.airflow("db", "migrate").returncode == 0
    assert stack.database("SELECT count(*) FROM dag_run") == [(0,)]
    done, said = stack.backfill()
    assert done, said
    assert stack.states()["batch.land"] == {"skipped"}
    assert stack.states()["verify_all"] == {"success"}
    assert stack.rows() == expected_rows()
    assert stack.files() == landed
