"""Each client is imported in its own room only (ruff's banned-api holds the rest of the tree)."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = {
    "airflow": ("dags/", "plugins/sluice/airflow/", "plugins/sluice/clients/connections.py"),
    "pyspark": ("spark_jobs/", "benchmarks/"),
    "kafka": ("plugins/sluice/clients/kafka/", "benchmarks/", "spark_jobs/"),
    "confluent_kafka": ("plugins/sluice/clients/kafka/", "benchmarks/"),
    "clickhouse_connect": ("plugins/sluice/clients/clickhouse/", "benchmarks/"),
    "openlineage": ("plugins/sluice/clients/openlineage/",),
    "boto3": ("plugins/sluice/clients/lake/", "benchmarks/"),
    "botocore": ("plugins/sluice/clients/lake/", "plugins/sluice/clients/kafka/", "benchmarks/"),
}
SOURCES = [path for folder in ("dags", "plugins", "spark_jobs") for path in ROOT.glob(f"{folder}/**/*.py")]


def nodes(tree: ast.AST, for_types: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if for_types or not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from nodes(node, for_types)


@cache
def imported(path: Path, for_types: bool = True) -> set[str]:
    """The packages that a file imports; without `for_types` only those that it takes to run."""
    names: set[str] = set()
    for node in nodes(ast.parse(path.read_text()), for_types):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def allowed(client: str, place: str) -> bool:
    return place.startswith(ROOMS[client])


@pytest.mark.parametrize("client", ROOMS)
def test_a_client_stays_in_its_room(client: str):
    strays = [
        place
        for path in SOURCES
        if client in imported(path) and not allowed(client, place := path.relative_to(ROOT).as_posix())
    ]
    assert strays == []
