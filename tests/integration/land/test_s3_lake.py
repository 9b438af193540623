from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from sluice.clients.lake import s3_client, temporary
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.errors import LakeRefused, LakeUnavailable, WrongUse
from sluice.state.lease import Lease
from tests.integration import s3_servers
from tests.support.lake_contract import LakeContract, keys

pytestmark = pytest.mark.integration


def new_lake(settings: S3Settings) -> S3Lake:
    bucket = "b" + uuid.uuid4().hex
    s3_servers.make_bucket(settings, bucket)
    return open_lake_at(f"s3://{bucket}/some/prefix", "demo", settings)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    with s3_servers.moto(tmp_path_factory.mktemp("moto")) as settings:
        yield settings


@pytest.fixture(scope="module")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Settings]:
    with s3_servers.versitygw(tmp_path_factory.mktemp("versitygw")) as settings:
        yield settings


@pytest.mark.long
class TestMoto(LakeContract):
    no_races = "moto checks and writes without a lock"

    @pytest.fixture
    def lake(self, moto: S3Settings) -> S3Lake:
        return new_lake(moto)


class TestVersitygw(LakeContract):
    @pytest.fixture
    def lake(self, versitygw: S3Settings) -> S3Lake:
        return new_lake(versitygw)


@pytest.fixture
def lake(moto: S3Settings) -> S3Lake:
    return new_lake(moto)


@contextmanager
def lost_answers(lake: S3Lake, count: int) -> Iterator[None]:
    """The server does the next `count` requests, but its answers are lost: boto asks again."""
    lost = []

    def lose(response_dict: dict, **_: object) -> None:
        if len(lost) < count:
            lost.append(response_dict["status_code"])
            response_dict["status_code"], response_dict["body"] = 503, b""

    events = s3_client.client(lake.settings).meta.events
    events.register("before-parse.s3.PutObject", lose)
    try:
        yield
    finally:
        events.unregister("before-parse.s3.PutObject", lose)
    assert lost == [200] + [412] * (count - 1)


@contextmanager
def answered(lake: S3Lake, operation: str, status: int, body: bytes, done: bool) -> Iterator[None]:
    """One answer of the server is replaced; its request is carried out first if `done`."""
    events, left = s3_client.client(lake.settings).meta.events, [1]

    def replace(response_dict: dict, **_: object) -> None:
        if left:
            left.pop()
            response_dict["status_code"], response_dict["body"] = status, body

    def refuse(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        if not left:
            return None
        left.pop()
        return AWSResponse(request.url, status, {}, Answer(body))

    event, act = (
        (f"before-parse.s3.{operation}", replace) if done else (f"before-send.s3.{operation}", refuse)
    )
    events.register(event, act)
    try:
        yield
    finally:
        events.unregister(event, act)
    assert not left


class Answer(io.BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>conflict</Message></Error>"


@pytest.mark.parametrize("done", [True, False])
def test_a_conflict_is_looked_into(lake: S3Lake, done: bool) -> None:
    with answered(lake, "PutObject", 409, CONFLICT, done):
        assert lake.create("a", b"one")
    version = lake.read("a").version
    with answered(lake, "PutObject", 409, CONFLICT, done):
        assert lake.replace("a", b"two", version)
    with answered(lake, "PutObject", 409, CONFLICT, done=False):
        assert not lake.replace("a", b"three", version)
    with answered(lake, "PutObject", 409, CONFLICT, done=False):
        assert not lake.create("a", b"three")
    assert lake.read("a").data == b"two"


@pytest.mark.parametrize(
    ("reason", "error", "text"),
    [
        (b"AccessDenied", LakeRefused, "s3:GetObject, PutObject, DeleteObject"),
        (b"InternalError", LakeUnavailable, "InternalError"),
        (b"SlowDown", LakeUnavailable, "SlowDown"),
    ],
)
def test_a_key_that_cannot_be_deleted(lake: S3Lake, reason: bytes, error: type[Exception], text: str) -> None:
    found = b"<Error><Key>some/prefix/demo/b</Key><Code>" + reason + b"</Code></Error>"
    body = b"<DeleteResult>" + found + b"</DeleteResult>"
    with (
        answered(lake, "DeleteObjects", 200, body, done=False),
        pytest.raises(error, match=rf"some/prefix/demo/b.*{text}"),
    ):
        lake.delete(["a", "b"])


def test_a_key_that_is_already_gone_is_no_error(lake: S3Lake) -> None:
    body = b"<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error></DeleteResult>"
    with answered(lake, "DeleteObjects", 200, body, done=False):
        lake.delete(["a"])


@pytest.mark.parametrize("lost", [1, 2])
def test_a_create_whose_answer_is_lost_has_won(lake: S3Lake, lost: int) -> None:
    with lost_answers(lake, lost):
        assert lake.create("a", b"mine")
    assert lake.read("a").data == b"mine"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_replace_whose_answer_is_lost_has_won(lake: S3Lake, lost: int) -> None:
    lake.create("a", b"one")
    version = lake.read("a").version
    with lost_answers(lake, lost):
        assert lake.replace("a", b"two", version)
    assert not lake.replace("a", b"three", version)
    assert lake.read("a").data == b"two"


def test_keys_are_below_the_prefix(lake: S3Lake, moto: S3Settings) -> None:
    lake.put("type=a/x", b"1")
    assert keys(S3Lake(lake.bucket, "", moto)) == ["some/prefix/demo/type=a/x"]
    assert lake.url == f"s3://{lake.bucket}/some/prefix/demo"


def test_folder_markers_are_no_objects(lake: S3Lake, moto: S3Settings) -> None:
    s3_client.client(moto).put_object(
        Bucket=lake.bucket, Key="some/prefix/demo/type=a/"
    )  # as a console makes one
    lake.put("type=a/x", b"1")
    assert keys(lake) == ["type=a/x"]


def test_local_files_do_not_stay(lake: S3Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary._Own, "process", 0)
    begun = lake.begin("a")
    begun.path.write_bytes(b"x")
    lake.finish("a", begun)
    with lake.local("a") as path:
        assert path.parent.parent == tmp_path
    with pytest.raises(FileNotFoundError), lake.local("b"):
        pass
    [own] = tmp_path.iterdir()
    assert os.listdir(own) == ["lock"]


def test_a_missing_bucket(moto: S3Settings) -> None:
    lake = open_lake_at("s3://nosuchbucket", "demo", moto)
    for act in (
        lambda: lake.read("a"),
        lambda: lake.create("a", b"x"),
        lambda: lake.put("a", b"x"),
        lambda: keys(lake),
        lambda: lake.delete(["a"]),
    ):
        with pytest.raises(
            LakeRefused, match=r"s3://nosuchbucket/demo.*NoSuchBucket.*make the bucket"
        ) as raised:
            act()
        assert not raised.value.retryable


def test_wrong_credentials(versitygw: S3Settings) -> None:
    right = new_lake(versitygw)
    wrong = S3Lake(
        right.bucket, right.prefix, S3Settings(versitygw.endpoint_url, "us-east-1", "tester", "wrong")
    )
    for act in (lambda: wrong.read("a"), lambda: wrong.size("a"), lambda: wrong.create("a", b"x")):
        with pytest.raises(LakeRefused, match="credentials") as raised:
            act()
        assert "wrong" not in str(raised.value)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake_at("s3://b", "demo", S3Settings("http://127.0.0.1:1", "us-east-1", "k", "s"))
    for act in (lambda: lake.read("a"), lambda: keys(lake)):
        with pytest.raises(LakeUnavailable, match=r"127\.0\.0\.1:1") as raised:
            act()
        assert raised.value.retryable


def test_an_endpoint_that_is_no_url() -> None:
    lake = open_lake_at("s3://b", "demo", S3Settings("no url", "us-east-1", "k", "s"))
    with pytest.raises(WrongUse, match="'no url'"):
        lake.read("a")


def hold(pickled: bytes, attempt: int, inside: Path) -> int:
    lake = pickle.loads(pickled)
    term, patience = timedelta(seconds=10), timedelta(minutes=2)
    with Lease.acquire(lake, "events.clicks", f"attempt-{attempt}", term, patience) as lease:
        inside.mkdir()
        lease.renew()
        inside.rmdir()
        return lease.generation


def test_one_lease_at_a_time(versitygw: S3Settings, tmp_path: Path) -> None:
    pickled = pickle.dumps(new_lake(versitygw))
    with ProcessPoolExecutor(8, multiprocessing.get_context("fork")) as pool:
        held = [pool.submit(hold, pickled, attempt, tmp_path / "inside") for attempt in range(8)]
        assert sorted(one.result() for one in held) == list(range(1, 9))
