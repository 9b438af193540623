"""A large object on its way to a real S3 server: it is there once and whole, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from local.environment import HOST
from sluice.clients.lake import s3_client
from sluice.clients.lake.s3 import PART_BYTES, S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.errors import LakeRefused, LakeUnavailable
from tests.faults.fault_log import FaultLog
from tests.faults.s3_faults import INTERNAL, SLOW_DOWN, port_of, quick_retries, scene
from tests.faults.wire import Fault, Wire
from tests.faults.wire_http import FOREVER, Answer, HttpLayer
from tests.integration import s3_servers
from tests.integration.land.test_s3_lake import new_lake

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("quick_retries")]
assert quick_retries

VICTIM = "line to S3"
LARGE = 200 << 20
PARTS = 3
PART, LAST = r"partNumber=2", r"uploadId=[^&]*$"  # requests of an upload in parts, as their URLs show them
KEY = "_attempts/s/a/f.parquet"
# What a store may say to a last request that it has carried out before.
AGAIN = [
    Answer(404, b"<Error><Code>NoSuchUpload</Code><Message>gone</Message></Error>"),
    Answer(412, b"<Error><Code>PreconditionFailed</Code><Message>there</Message></Error>"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        yield settings


@pytest.fixture(scope="module")
def block() -> bytes:
    return os.urandom((PARTS - 1) * PART_BYTES + 12345)


@pytest.fixture
def direct(server: S3Settings) -> S3Lake:
    return new_lake(server)


@pytest.fixture
def layer(server: S3Settings) -> Iterator[HttpLayer]:
    with HttpLayer(port_of(server)) as made:
        yield made


def through(lake: S3Lake, port: int) -> S3Lake:
    return replace(lake, settings=replace(lake.settings, endpoint_url=f"http://{HOST}:{port}"))


def send(lake: S3Lake, data: bytes, key: str = KEY) -> None:
    begun = lake.begin(key)
    begun.path.write_bytes(data)
    try:
        lake.finish(key, begun)
    finally:
        begun.discard()


def begun(lake: S3Lake) -> list[str]:
    found = s3_client.client(lake.settings).list_multipart_uploads(Bucket=lake.bucket)
    return [upload["Key"] for upload in found.get("Uploads", [])]


def test_two_hundred_megabytes(direct: S3Lake) -> None:
    """Uploaded, moved and read back: what is there is what was written."""
    new, written = direct.begin(KEY), hashlib.sha256()
    with new.path.open("wb") as file:
        for _ in range(LARGE // (1 << 20)):
            piece = os.urandom(1 << 20)
            written.update(piece)
            file.write(piece)
    direct.finish(KEY, new)
    direct.move(KEY, "type=a/f.parquet")
    assert [(item.key, item.size) for item in direct.list("")] == [("type=a/f.parquet", LARGE)]
    with direct.local("type=a/f.parquet") as path, path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == written.digest()
    assert begun(direct) == []


@pytest.mark.parametrize("done", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize(
    "request_", [("POST", r"\?uploads"), ("PUT", PART), ("POST", LAST)], ids=["begin", "part", "last"]
)
def test_a_request_that_fails_once(
    direct: S3Lake, layer: HttpLayer, block: bytes, request_: tuple[str, str], done: bool, fault_log: FaultLog
) -> None:
    """Also when it was carried out: the last one, asked again, finds its own object there."""
    with fault_log.trial("fault", f"large object, {request_}: 503, {done=}", victim=VICTIM):
        layer.answer(*request_, Answer(503, SLOW_DOWN), done=done)
        send(through(direct, layer.port), block)
        assert layer.struck == 1
        assert direct.read(KEY).data == block


@pytest.mark.parametrize("request_", [("PUT", PART), ("POST", LAST)], ids=["part", "last"])
def test_a_request_that_fails_for_good(
    direct: S3Lake, layer: HttpLayer, block: bytes, request_: tuple[str, str], fault_log: FaultLog
) -> None:
    """No object, no left parts, and the next try can do it."""
    with fault_log.trial("fault", f"large object, {request_}: 500 for good", victim=VICTIM):
        layer.answer(*request_, Answer(500, INTERNAL), FOREVER)
        with pytest.raises(LakeUnavailable):
            send(through(direct, layer.port), block)
        assert direct.read(KEY) is None
        assert begun(direct) == []
        layer.lookback()
        send(through(direct, layer.port), block)
        assert direct.read(KEY).data == block


@pytest.mark.parametrize("size", [10, PART_BYTES + 1], ids=["one request", "parts"])
def test_somebody_elses_object_is_not_replaced(direct: S3Lake, size: int) -> None:
    direct.put(KEY, b"theirs")
    with pytest.raises(LakeRefused, match="another writer's object"):
        send(direct, b"x" * size)
    assert direct.read(KEY).data == b"theirs"
    assert begun(direct) == []


@pytest.mark.parametrize("again", AGAIN, ids=lambda again: str(again.status))
def test_a_last_request_that_is_asked_again(
    direct: S3Lake, layer: HttpLayer, block: bytes, again: Answer, fault_log: FaultLog
) -> None:
    """Done without an answer, then refused, as S3 may: the object bears this writer's mark, so it has won."""
    with fault_log.trial("fault", f"large object, last request: lost, then {again.status}", victim=VICTIM):
        layer.answer("POST", LAST, Answer(503, SLOW_DOWN), done=True)
        layer.answer("POST", LAST, again)
        send(through(direct, layer.port), block)
        assert layer.struck == 2
        assert direct.read(KEY).data == block


def test_a_small_object_that_is_sent_again(direct: S3Lake, layer: HttpLayer, fault_log: FaultLog) -> None:
    """The store itself refuses the second PUT."""
    with fault_log.trial("fault", "object in one request: answer lost", victim=VICTIM):
        layer.answer("PUT", KEY, Answer(503, SLOW_DOWN), done=True)
        send(through(direct, layer.port), b"small")
        assert layer.seen == [200]
        assert direct.read(KEY).data == b"small"


def test_a_last_request_that_is_refused_before_it_was_done(
    direct: S3Lake, layer: HttpLayer, block: bytes
) -> None:
    """Nothing is at the key: it has not won, and the next try does it."""
    layer.answer("POST", LAST, AGAIN[0])
    with pytest.raises(LakeUnavailable):
        send(through(direct, layer.port), block)
    assert direct.read(KEY) is None and begun(direct) == []
    send(through(direct, layer.port), block)
    assert direct.read(KEY).data == block


@pytest.mark.parametrize("lost", [False, True], ids=["undone", "done, then NoSuchUpload"])
def test_a_large_move_whose_last_request_fails(
    direct: S3Lake, layer: HttpLayer, block: bytes, lost: bool, fault_log: FaultLog
) -> None:
    """What looks like a failure is unavailable; done again, the object is where it belongs."""
    send(direct, block)
    with fault_log.trial("fault", f"large move, last request: {lost=}", victim=VICTIM):
        layer.answer("POST", LAST, Answer(503, SLOW_DOWN), done=lost)
        if lost:
            layer.answer("POST", LAST, AGAIN[0])
        lake = through(direct, layer.port)
        with pytest.raises(LakeUnavailable) if lost else nullcontext():
            lake.move(KEY, "b")
        lake.move(KEY, "b")
        assert [item.key for item in direct.list("")] == ["b"]
        assert direct.read("b").data == block


@pytest.mark.long
def test_a_slow_server(server: S3Settings, fault_log: FaultLog) -> None:
    """Each answer takes a while: nothing is done twice, and nothing is given up."""
    with Wire(port_of(server)) as wire, fault_log.trial("fault", f"landing: {Fault.DELAY}", victim=VICTIM):
        made = scene(server, wire.port)
        wire.strike(b"HTTP/1.1", Fault.DELAY, FOREVER, seconds=0.15)
        made.resolve()
        made.land()
        assert wire.struck > 10
        made.expect_landed()


def test_the_path_of_the_file_is_used_up(direct: S3Lake, block: bytes) -> None:
    begun = direct.begin(KEY)
    begun.path.write_bytes(block)
    direct.finish(KEY, begun)
    assert not begun.path.exists()
