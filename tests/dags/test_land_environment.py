"""Which connections the `land` task hands to spark-submit's process."""

from __future__ import annotations

import pytest

from sluice.airflow.land_operator import process_environment
from sluice.config.pipeline import Pipeline


def test_the_schema_registrys_is_among_them(monkeypatch: pytest.MonkeyPatch):
    # Airflow's own look-up is tested in test_airflow_connections.py; here it is only which are asked for.
    given = "sluice.airflow.land_operator.connections.as_environment"
    monkeypatch.setattr(given, lambda ids: {f"CONNECTION {conn_id}": "given" for conn_id in ids})
    pipeline = Pipeline.model_validate(
        {
            "name": "ads",
            "kafka": [{"cluster": "dc1", "connection": "kafka_dc1", "topics": ["bids"]}],
            "event": {
                "type": {"topic": True},
                "time": {"record": True},
                "format": "avro",
                "registry": {"connection": "schemas"},
            },
            "lake": "s3://ads/landing",
            "lake_connection": "store",
        }
    )
    found = {name for name, value in process_environment(pipeline, {}).items() if value == "given"}
    assert found == {"CONNECTION kafka_dc1", "CONNECTION store", "CONNECTION schemas"}


def test_those_that_hold_keys_of_the_mask_are_among_them(monkeypatch: pytest.MonkeyPatch):
    given = "sluice.airflow.land_operator.connections.as_environment"
    monkeypatch.setattr(given, lambda ids: {f"CONNECTION {conn_id}": "given" for conn_id in ids})
    keys = [{"connection": "new_key"}, {"connection": "old_key"}]
    pipeline = Pipeline.model_validate(
        {
            "name": "ads",
            "kafka": [{"cluster": "dc1", "connection": "kafka_dc1", "topics": ["bids"]}],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
            "mask": {"email": {"hash": keys}},
        }
    )
    found = {name for name, value in process_environment(pipeline, {}).items() if value == "given"}
    assert found == {"CONNECTION kafka_dc1", "CONNECTION new_key", "CONNECTION old_key"}
