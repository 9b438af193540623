"""How much memory each kind of Airflow's and Spark's processes took at most, while it ran."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil

from tests.stock.platform import StockAirflow, command_of

SECONDS = 0.5
# By what a command line has in it, the first that fits. Airflow names its processes so.
KINDS = (
    ("Spark's JVM", "org.apache.spark.deploy.SparkSubmit"),
    ("Spark's Python worker", "worker_daemon"),
    ("Spark's Python driver", "spark_jobs/land.py"),
    ("executor's worker", "airflow worker -- LocalExecutor"),
    ("task", "airflow worker -- "),
    ("scheduler", "airflow scheduler"),
    ("DAG processor", "airflow dag-processor"),
    ("triggerer", "airflow triggerer"),
    ("API server", "airflow api"),
)


@contextmanager
def watched(airflow: StockAirflow) -> Iterator[dict[str, int]]:
    """By kind the largest resident memory of one process, in bytes."""
    most: dict[str, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(SECONDS):
            for process in airflow.processes():
                _note(process, most)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def _note(process: psutil.Process, most: dict[str, int]) -> None:
    kind = kind_of(command_of(process))
    try:
        if kind:
            most[kind] = max(most.get(kind, 0), process.memory_info().rss)
    except psutil.Error:
        return


def kind_of(words: Sequence[str]) -> str:
    """Empty for what is none of them, such as a command of a shell."""
    text = " ".join(words)
    return next((kind for kind, sign in KINDS if sign in text), "")


def table(most: dict[str, int]) -> str:
    return "".join(f"{kind:<24} {size / 2**20:6.0f} MB\n" for kind, size in sorted(most.items()))
