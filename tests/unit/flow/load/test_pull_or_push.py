"""Whether the server pulls the lake's files: its answer of one manifest decides."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.config.clickhouse import ClickHouse
from sluice.errors import Conservation, Refused
from sluice.flow.load.source.pull import FolderSource
from sluice.flow.load.source.pull_or_push import FileRows, Reading, choose_reading
from tests.support.fakes import MemoryLake
from tests.unit.flow.load.test_load_decide import pipeline, unit

MANIFEST = b'{"id": "m1"}'
BUSY = (202, "TOO_MANY_SIMULTANEOUS_QUERIES", "Too many simultaneous queries. Maximum: 100")
STORE = (499, "S3_ERROR", "HTTP response code: 503")
MISSING = (499, "S3_ERROR", "HTTP response code: 404")
NO_RIGHT = (497, "ACCESS_DENIED", "Not enough privileges")


def chosen(read: str, answer: bytes | tuple[int, str, str]) -> tuple[MemoryLake, Reading]:
    lake = MemoryLake("file:///lake/demo")
    lake.put(layout.manifest(unit().slice.id, unit().cluster), MANIFEST)

    def rows(sql: str) -> list[tuple[str]]:
        if isinstance(answer, tuple):
            raise ServerError("server:8123", answer[0], answer[1], "SELECT", answer[2])
        return [(answer.decode(),)]

    spec = pipeline(click="clicks").model_copy(update={"clickhouse": ClickHouse(read=read)})
    return lake, choose_reading(SimpleNamespace(rows=rows, address="server:8123"), spec, lake, unit())


@pytest.mark.parametrize("read", ["auto", "pull"])
def test_the_server_reads_the_same_bytes(read):
    lake, reading = chosen(read, MANIFEST)
    assert reading == Reading(lake, FolderSource("/lake/demo"))


@pytest.mark.parametrize("failure", [BUSY, STORE])
def test_a_retryable_error_stays_one_where_the_server_must_pull(failure):
    with pytest.raises(ServerError, match=failure[1]) as raised:
        chosen("pull", failure)
    assert raised.value.retryable


@pytest.mark.parametrize("failure", [BUSY, STORE])
def test_auto_pushes_where_the_server_does_not_reach_the_store(failure):
    """A store that the server cannot reach looks like one that is down: pushing needs nothing of it."""
    lake, reading = chosen("auto", failure)
    assert reading == Reading(lake, None)


@pytest.mark.parametrize("answer", [b"other bytes", MISSING, NO_RIGHT])
def test_a_server_that_does_not_see_the_lake(answer):
    lake, reading = chosen("auto", answer)
    assert reading == Reading(lake, None)
    with pytest.raises(Refused, match="cannot read the lake file:///lake/demo: give it the folder"):
        chosen("pull", answer)


def test_push_asks_nothing():
    lake, reading = chosen("push", BUSY)
    assert reading == Reading(lake, None)


@pytest.mark.parametrize("there", ["a link", "nothing"])
def test_a_server_pulls_no_file_that_the_lake_does_not_have(there: str, tmp_path: Path):
    """It follows a link to another pipeline's rows, and leaves out what is missing without a word."""
    lake = FolderLake(tmp_path / "demo")
    own, other = (f"type=click/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-1-{n}.parquet" for n in (0, 1))
    lake.put(own, b"")
    if there == "a link":
        (tmp_path / "foreign").write_bytes(b"rows")
        (lake.root / other).symlink_to(tmp_path / "foreign")
    reading = Reading(lake, FolderSource(str(lake.root)))
    writer = SimpleNamespace(attempt=SimpleNamespace(temporary=str), run=lambda *_, **__: None)
    files = [FileRows(unit(), key, 1) for key in (own, other)]
    sources = reading.sources(pipeline(click="clicks"), files, ("_payload",), writer)
    assert own in str(next(sources))
    with pytest.raises(Conservation, match=f"{other} of its manifest is missing"):
        list(sources)
