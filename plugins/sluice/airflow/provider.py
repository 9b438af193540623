"""What Airflow lists of Sluice under its providers: the entry point `apache_airflow_provider`.

Connections are of the types that other providers bring: Kafka's, ClickHouse's, Spark's and Amazon's.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "sluice",
        "name": "Sluice",
        "description": "Moves events from Kafka into a data lake and ClickHouse, exactly once",
        "notifications": ["sluice.airflow.notifiers.WebhookNotifier"],
        "extra-links": [
            "sluice.airflow.land_operator.HoursLink",
            "sluice.airflow.land_operator.RunLink",
        ],
    }
