"""Batches: which files are meant, and that each is shipped once, whatever stops it."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.clients.kafka.producer import DeliveryError
from sluice.clients.lake.folder import FolderLake
from sluice.config.event import Event
from sluice.errors import EventsRefused, Fenced, KafkaUnavailable, SluiceError, WrongUse
from sluice.ship.publish import (
    Register,
    RegisterEntry,
    ShipOrder,
    Shipper,
    batches_of,
    content_id,
    first_line,
    given_id,
    publish,
)
from sluice.ship.record_times import RecordKeys, RecordTimes
from sluice.ship.shipment import (
    Acknowledged,
    BatchReport,
    BatchState,
    Interruption,
    Shipment,
    ShipProgress,
    together,
)
from tests.support.fake_publisher import FakePublisher, Killed
from tests.support.following import EVENT
from tests.support.landing_world import pipeline

ENTRY = RegisterEntry("b1", "f", "uuid-1", "attempt-1", line=7)


@pytest.mark.parametrize(
    ("known", "topic", "again", "expected"),
    [
        (None, "uuid-1", False, 0),
        (ENTRY, "uuid-1", False, 7),
        (replace(ENTRY, done=True), "uuid-1", False, None),
        (replace(ENTRY, done=True), "uuid-1", True, 0),
        (ENTRY, "uuid-1", True, 0),
        (replace(ENTRY, done=True), "uuid-2", False, 0),  # the topic was recreated
    ],
)
def test_what_the_register_decides(known, topic, again, expected):
    assert first_line(known, topic, again) == expected


def register(folder: Path, topic_id: str = "uuid-1") -> Register:
    return Register(FolderLake(folder / "lake"), "dc1", "clicks", topic_id)


def test_the_entry_is_where_it_is_looked_for(tmp_path: Path):
    claim = register(tmp_path).begin("b1", "a.gz", again=False)
    assert claim is not None and claim.entry.line == 0
    claim.save(12, {"0": {"records": 12, "first": 3, "last": 14}}, done=True)
    found = json.loads((tmp_path / "lake/_shipped/dc1/clicks/b1.json").read_text())
    assert (found["batch"], found["source"], found["line"], found["done"]) == ("b1", "a.gz", 12, True)
    assert found["partitions"] == {"0": {"records": 12, "first": 3, "last": 14}}
    assert register(tmp_path).begin("b1", "a.gz", again=False) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda entry: entry[:40],
            r"_shipped/dc1/clicks/b1.json is no entry of a shipped batch \(.*\): ",
        ),
        (lambda entry: b"", "is no entry of a shipped batch"),
        (lambda entry: b"[]", "is no entry of a shipped batch"),
        (lambda entry: entry.replace(b"a.gz", b"a\xff"), "is no entry of a shipped batch"),
        (lambda entry: entry.replace(b'"line": 5', b'"line": "5"'), "no entry .*Expected `int`, got `str`"),
        (
            lambda entry: entry.replace(b'"attempt"', b'"tempt"'),
            "no entry .*missing required field `attempt`",
        ),
        (lambda entry: entry.replace(b"{", b'{"version": 2, "more": 1,', 1), "b1.json has format 2, newer"),
    ],
    ids=["cut off", "empty", "a list", "no text", "another type", "without a field", "newer"],
)
def test_an_entry_that_is_none_is_told_with_its_place(change, message: str, tmp_path: Path):
    claim = register(tmp_path).begin("b1", "a.gz", again=False)
    claim.save(5, {})
    path = tmp_path / "lake/_shipped/dc1/clicks/b1.json"
    path.write_bytes(change(path.read_bytes()))
    damaged = path.read_bytes()
    with pytest.raises(SluiceError, match=message):
        claim.save(6, {})
    for again in (False, True):
        with pytest.raises(SluiceError, match=message):
            register(tmp_path).begin("b1", "a.gz", again)
    assert path.read_bytes() == damaged


def test_an_entry_may_say_that_it_is_of_the_first_format(tmp_path: Path):
    entry = ENTRY.encode().replace(b"{", b'{"version": 1,', 1)
    assert RegisterEntry.decode(entry, "there") == RegisterEntry.decode(ENTRY.encode(), "there") == ENTRY


def test_who_began_last_goes_on(tmp_path: Path):
    first = register(tmp_path).begin("b1", "a.gz", again=False)
    first.save(5, {})
    second = register(tmp_path).begin("b1", "a.gz", again=False)
    assert second is not None and second.entry.line == 5
    with pytest.raises(Fenced, match="taken over batch b1"):
        first.save(9, {})
    second.save(6, {}, done=True)


def test_there_is_no_file_of_a_name_that_no_file_can_have():
    with pytest.raises(WrongUse, match="xxx: no such file"):
        publish(pipeline(), ShipOrder("x" * 300))


def test_the_files_of_a_folder(tmp_path: Path):
    for name in ("b.gz", "a.ndjson", "x/c.zst", ".hidden", "_SUCCESS", "d.gz.tmp", "x/.y/z.gz", "e.part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    found = [batch.name for batch in batches_of(str(tmp_path))]
    assert found == [str(tmp_path / name) for name in ("a.ndjson", "b.gz", "x/c.zst")]


def test_nothing_of_a_folder_is_read_through_a_link(tmp_path: Path):
    """Whoever may write into the folder would have files published that he may not read."""
    (tmp_path / "secret").mkdir()
    for name in ("secret/x", "inbox/sub/x", "inbox/own"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    inbox = tmp_path / "inbox"
    (inbox / "file").symlink_to(tmp_path / "secret/x")
    (inbox / "folder").symlink_to(tmp_path / "secret")
    own, sub = batches_of(str(inbox))
    assert (own.name, sub.name) == (f"{inbox}/own", f"{inbox}/sub/x")
    with own.local() as path:
        (inbox / "own").unlink()
        (inbox / "own").symlink_to(tmp_path / "secret/x")
        assert path.read_text() == "inbox/own"  # it is open
    with pytest.raises(WrongUse, match=r"/own: it is a link, not a file$"), own.local():
        pass
    (inbox / "sub").rename(inbox / "gone")
    (inbox / "sub").symlink_to(tmp_path / "secret")
    with pytest.raises(WrongUse, match=r"/sub/x: it is a link, not a folder$"), sub.local():
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_a_pipes_writer(tmp_path: Path, number: signal.Signals):
    os.mkfifo(tmp_path / "pipe")
    interruption, topic = Interruption(), FakePublisher()
    progress = ShipProgress("dc1/clicks", lambda line: None)
    shipment = Shipment(topic, RecordTimes(EVENT, timedelta()), RecordKeys(None), progress)
    shipper = Shipper(shipment, register(tmp_path), interruption, lambda line: None)
    begun, ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        begun.wait()
        signal.pthread_kill(threading.main_thread().ident, number)
        while not ended.wait(5):  # one that came just before the pipe was opened has ended no wait
            signal.pthread_kill(threading.main_thread().ident, number)

    @contextmanager
    def waiting() -> Iterator:
        begun.set()
        with open(tmp_path / "pipe", "rb") as stream:
            yield stream

    sender = threading.Thread(target=interrupt, daemon=True)
    with interruption.heard():
        sender.start()
        try:
            shipper.ship_stream("pipe", waiting())
        finally:
            ended.set()
            sender.join()
    assert interruption.asked and shipper.reports[0].state is BatchState.BEGUN


def test_an_empty_folder_is_told(tmp_path: Path):
    with pytest.raises(WrongUse, match="no file is there"):
        batches_of(str(tmp_path))


def test_ids(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"content")
    assert content_id(tmp_path / "a") == hashlib.sha256(b"content").hexdigest()[:32]
    assert given_id("2026-11-20T10.gz") == "2026-11-20T10.gz"
    for wrong in ("", "a/b", "..", ".a", "a b", "x" * 128):
        with pytest.raises(WrongUse, match="--batch"):
            given_id(wrong)


def test_a_pipe_is_no_batch(tmp_path: Path):
    """It would be empty, or wait for ever, when it is read a second time."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WrongUse, match=r"pipe: it is a pipe, not a file$"):
        content_id(tmp_path / "pipe")


class Waits:
    """In the place of the interruption: asked for after so many chunks."""

    def __init__(self, chunks: int | None = None) -> None:
        self.left, self.asked = chunks, False

    def until(self, items: Iterable):
        for item in items:
            yield item
            if self.left is not None:
                self.left -= 1
                self.asked = self.left <= 0
                if self.asked:
                    return


def ship(
    folder: Path,
    topic: FakePublisher,
    source: str,
    waits: Waits | None = None,
    event: Event = EVENT,
    **more,
) -> Shipper:
    progress = ShipProgress("dc1/clicks", lambda line: None)
    shipment = Shipment(topic, RecordTimes(event, timedelta()), RecordKeys(None), progress)
    said: list[str] = []
    known = register(folder, topic.facts.uuid)
    shipper = Shipper(shipment, known, waits or Waits(), said.append, **more)
    with suppress(Killed):
        shipper.ship_all(batches_of(source))
    shipper.said = said
    return shipper


LINES = [f"line {n}" for n in range(1, 31)]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "batch.ndjson"
    path.write_text("\n".join([*LINES, ""]))
    return str(path)


def test_a_batch_is_shipped_once(tmp_path: Path, source: str):
    topic, number = FakePublisher(), content_id(Path(source))
    assert ship(tmp_path, topic, source).reports == [BatchReport(source, number, BatchState.SHIPPED, 30)]
    (tmp_path / "other-name").write_bytes(Path(source).read_bytes())
    second = ship(tmp_path, topic, str(tmp_path / "other-name"))
    assert [report.state for report in second.reports] == [BatchState.BEFORE]
    assert "was shipped before" in second.said[0]
    assert topic.taken == [(f"{number}:{n}".encode(), f"line {n}".encode()) for n in range(1, 31)]


def test_again_and_a_topic_that_was_made_again(tmp_path: Path, source: str):
    topic = FakePublisher()
    ship(tmp_path, topic, source)
    assert ship(tmp_path, topic, source, again=True).reports[0].state is BatchState.SHIPPED
    assert (len(topic.taken), len(dict(topic.taken))) == (60, 30)
    made_again = FakePublisher(facts=replace(topic.facts, uuid="uuid-2"))
    assert ship(tmp_path, made_again, source).reports[0].state is BatchState.SHIPPED


def test_nothing_is_lost_wherever_it_is_killed(tmp_path: Path, source: str):
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        folder, topic = tmp_path / str(kill_at), FakePublisher(kill_at=kill_at, serves_at_once=2)
        ship(folder, topic, source)
        killed = topic.calls >= kill_at
        topic.restart()
        ship(folder, topic, source)
        assert [event.decode() for event in dict(topic.taken).values()] == LINES, kill_at
        assert len(set(topic.taken)) == len(dict(topic.taken)), kill_at
    assert kill_at > 30


def test_an_interrupted_one_ships_the_rest(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sluice.ship.lines.READ_BYTES", 64)
    topic = FakePublisher()
    first = ship(tmp_path, topic, source, Waits(chunks=2))
    (report,) = first.reports
    assert report.state is BatchState.BEGUN and 0 < report.line == len(topic.taken) < 30
    (rest,) = ship(tmp_path, topic, source).reports
    assert (rest.state, rest.line, rest.resumed_after) == (BatchState.SHIPPED, 30, report.line)
    assert [event.decode() for _, event in topic.taken] == LINES


def test_an_event_that_is_refused_is_named(tmp_path: Path, source: str):
    too_large = DeliveryError(DeliveryError.MSG_SIZE_TOO_LARGE)
    topic = FakePublisher(refuse=lambda event: too_large if event == b"line 17" else None)
    with pytest.raises(EventsRefused, match=r"batch\.ndjson, line 17: .*MSG_SIZE_TOO_LARGE"):
        ship(tmp_path, topic, source)
    topic.refuse = lambda event: None
    (report,) = ship(tmp_path, topic, source).reports
    assert (report.state, report.resumed_after) == (BatchState.SHIPPED, 0)  # one chunk: it goes again whole
    assert [event.decode() for event in dict(topic.taken).values()][-1] == "line 17"
    assert sorted(event.decode() for event in dict(topic.taken).values()) == sorted(LINES)


def test_a_cluster_that_went_away_is_unavailable(tmp_path: Path, source: str):
    timed_out = DeliveryError(DeliveryError._MSG_TIMED_OUT)
    topic = FakePublisher(refuse=lambda event: timed_out)
    topic.gone = lambda reason: KafkaUnavailable("dc1", "x:1", reason)
    with pytest.raises(KafkaUnavailable):
        ship(tmp_path, topic, source)


def test_a_file_that_changes_meanwhile_is_not_done(tmp_path: Path, source: str):
    topic = FakePublisher()
    usual = topic.send

    def send(*args):
        Path(source).write_text("other\n")
        usual(*args)

    topic.send = send
    with pytest.raises(WrongUse, match="was changed while it was published"):
        ship(tmp_path, topic, source)
    (entry,) = (tmp_path / "lake/_shipped/dc1/clicks").iterdir()
    assert json.loads(entry.read_text())["done"] is False


def test_a_damaged_file_holds_up_no_other(tmp_path: Path):
    """Cut short, as a copy that broke off: what came before its damage is shipped, and all of the others."""
    (folder := tmp_path / "files").mkdir()
    for name in "ac":
        (folder / f"{name}.ndjson").write_text(f"{name}1\n{name}2\n")
    whole = gzip.compress("".join(f"b{n}\n" for n in range(30_000)).encode())
    (folder / "b.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    topic = FakePublisher()
    with pytest.raises(WrongUse, match=r"b\.ndjson\.gz is damaged"):
        ship(tmp_path, topic, str(folder))
    shipped = [event.decode() for _, event in topic.taken]
    assert [event for event in shipped if not event.startswith("b")] == ["a1", "a2", "c1", "c2"]
    with pytest.raises(WrongUse, match=r"b\.ndjson\.gz is damaged"):
        ship(tmp_path, topic, str(folder))
    (folder / "b.ndjson.gz").write_bytes(whole)
    states = [report.state for report in ship(tmp_path, topic, str(folder)).reports]
    assert states == [BatchState.BEFORE, BatchState.SHIPPED, BatchState.BEFORE]


def test_the_mark_in_front_of_utf8_is_no_part_of_the_first_event(tmp_path: Path):
    file = tmp_path / "windows.ndjson"
    file.write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\xef\xbb\xbf{"n": 2}\n')
    topic = FakePublisher()
    ship(tmp_path, topic, str(file))
    assert [event for _, event in topic.taken] == [b'{"n": 1}\r', b'\xef\xbb\xbf{"n": 2}']


def test_what_is_acknowledged_is_counted_by_partition():
    def window(**partitions: Acknowledged) -> SimpleNamespace:
        return SimpleNamespace(partitions={int(name[1:]): found for name, found in partitions.items()})

    windows = [window(p0=Acknowledged(2, 5, 6), p3=Acknowledged(1, 0, 0)), window(p0=Acknowledged(3, 7, 10))]
    assert together(windows) == {0: Acknowledged(5, 5, 10), 3: Acknowledged(1, 0, 0)}


def test_the_progress_line():
    now, said = [0.0], []
    progress = ShipProgress("dc1/clicks", said.append, clock=lambda: now[0])
    for now[0], events, size, waiting in (
        (1, 10, 10, 0),
        (4, 3_000, 8_000_000, 25),
        (7, 3_000, 8_000_000, 0),
    ):
        progress.update(events, size, waiting)
    now[0] = 99
    progress.update(3_000, 8_000_000, 0)  # nothing has happened
    assert said == [
        "published 3,000 rows, 8.0 MB, to dc1/clicks: 750 rows/s, 2.0 MB/s, 25 unacknowledged",
        "published 3,000 rows, 8.0 MB, to dc1/clicks: 0 rows/s, 0.0 MB/s, 0 unacknowledged",
    ]
