"""A lake in S3 forgets hours as a folder does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.clients.lake.s3 import S3Lake
from sluice.state.manifests import read_manifests
from tests.integration import s3_servers
from tests.integration.land.test_s3_lake import new_lake
from tests.unit.flow.forget.test_forget_killed import UNITS, Held, Killed, Mortal, fill, forget, held

pytestmark = pytest.mark.integration
__all__ = ["held"]  # a fixture


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Lake]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        yield new_lake(settings)


def test_two_hours_are_forgotten(lake: S3Lake, held: Held, monkeypatch: pytest.MonkeyPatch):
    fill(lake)
    before = read_manifests(lake, UNITS)
    with pytest.raises(Killed):  # the summary and both manifests say it, and no file is deleted
        forget(lake, monkeypatch, Mortal(lake, 3))
    assert [bool(m.forgotten) for m in read_manifests(lake, UNITS).values()] == [True, True, False]
    keys = {item.key for item in lake.list("")}
    assert {file.key for m in before.values() for file in m.all_files} <= keys
    assert [str(unit) for unit in forget(lake, monkeypatch).units] == [str(unit) for unit in UNITS[:2]]
    left = {item.key for item in lake.list("") if item.key.startswith(("type=", "_rejected/"))}
    mark = "type=click/date=2026-01-01/hour=02/_SUCCESS"
    assert left == {mark, *(file.key for file in before[UNITS[2]].all_files)}
    assert [m.forgotten and m.forgotten.removed for m in read_manifests(lake, UNITS).values()] == [
        True,
        True,
        None,
    ]
    assert forget(lake, monkeypatch).units == []
