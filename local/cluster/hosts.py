"""Airflow's `hostname_callable` of the wide stack: its workers go by the address that they are given."""

import os


def address() -> str:
    return os.environ.get("SLUICE_WORKER_ADDRESS", "127.0.0.1")
