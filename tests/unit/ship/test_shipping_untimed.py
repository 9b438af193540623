"""Lines without a time have that of the line before them, the same each time they are sent."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from random import Random

import msgspec
import pendulum
import pytest

from sluice.config.event import Event
from sluice.ship.log_file import FilePosition
from tests.support.fake_publisher import FakePublisher
from tests.support.following import World
from tests.unit.ship.test_shipping_batches import Waits, ship

EVENT = Event.model_validate({"type": {"topic": True}, "time": {"field": "at"}})
LAST_WEEK = pendulum.datetime(2026, 2, 3, 10)
UNTIMED = ["no JSON", "{}", '{"at": 5}', '{"at": "soon"}', "\tat java.lang.Thread.run(Thread.java:5)"]


def timed(minute: int, **more: object) -> str:
    return json.dumps({"at": LAST_WEEK.add(minutes=minute).isoformat(), **more})


def at(minute: int) -> int:
    return int(LAST_WEEK.add(minutes=minute).timestamp()) * 1000


def expected(lines: list[str]) -> list[int]:
    """Forward from each line with a time, and back from the first: what a person would say."""
    own = []
    for line in lines:
        try:
            own.append(int(pendulum.parse(json.loads(line)["at"]).timestamp()) * 1000)
        except (ValueError, KeyError, TypeError):
            own.append(None)
    last, found = next(time for time in own if time is not None), []
    for time in own:
        last = last if time is None else time
        found.append(last)
    return found


def mixed(seed: int, count: int = 60, leading: int = 9) -> list[str]:
    random = Random(seed)
    rest = [random.choice(UNTIMED) if random.random() < 0.5 else timed(n) for n in range(count - leading - 1)]
    return [*(random.choice(UNTIMED) for _ in range(leading)), timed(0), *rest]


def stamps(topic: FakePublisher) -> dict[int, set[int]]:
    """By line each record time that it was ever sent with."""
    found: dict[int, set[int]] = {}
    for (header, _), stamp in zip(topic.taken, topic.stamps, strict=True):
        found.setdefault(int(header.rpartition(b":")[2]), set()).add(stamp)
    return found


@pytest.mark.parametrize("block", [16, 300, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_file_in_any_pieces_and_with_any_break(tmp_path, monkeypatch, block, seed):
    monkeypatch.setattr("sluice.ship.lines.READ_BYTES", block)
    lines, source = mixed(seed), tmp_path / "batch.ndjson"
    source.write_text("\n".join(lines))
    wanted = {number: {time} for number, time in enumerate(expected(lines), 1)}
    for chunks in (None, 1, 3, 7, 20):
        topic, folder = FakePublisher(), tmp_path / str(chunks)
        first = ship(folder, topic, str(source), Waits(chunks), EVENT)
        rest = ship(folder, topic, str(source), None, EVENT)
        assert stamps(topic) == wanted
        counted = first.shipment.times.no_time + rest.shipment.times.no_time
        assert counted == sum(line in UNTIMED for line in lines)
        assert (first.shipment.times.now, rest.shipment.times.now) == (0, 0)


def test_a_file_with_any_kill(tmp_path, monkeypatch):
    monkeypatch.setattr("sluice.ship.lines.READ_BYTES", 200)
    lines, source = mixed(5, 25), tmp_path / "batch.ndjson"
    source.write_text("\n".join(lines))
    wanted = {number: {time} for number, time in enumerate(expected(lines), 1)}
    kill_at, killed = 0, True
    while killed:
        kill_at += 2
        folder, topic = tmp_path / str(kill_at), FakePublisher(kill_at=kill_at, serves_at_once=2)
        ship(folder, topic, str(source), None, EVENT)
        killed = topic.calls >= kill_at
        topic.restart()
        ship(folder, topic, str(source), None, EVENT)
        assert stamps(topic) == wanted, kill_at
    assert kill_at > 20


def test_a_file_without_any_time_is_of_now_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("sluice.ship.lines.READ_BYTES", 16)
    (tmp_path / "batch.ndjson").write_text("\n".join(UNTIMED))
    topic, before = FakePublisher(), int(pendulum.now().timestamp() * 1000)
    shipper = ship(tmp_path, topic, str(tmp_path / "batch.ndjson"), None, EVENT)
    assert len(topic.stamps) == len(UNTIMED) and min(topic.stamps) >= before
    times = shipper.shipment.times
    assert (times.no_time, times.refused, times.now) == (len(UNTIMED), 0, len(UNTIMED))


def test_each_file_begins_for_itself(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, minute in (("a", 5), ("b", 90), ("c", 7)):
        (folder / name).write_text("\n".join(["x", timed(minute), "x", ""]))
    topic = FakePublisher()
    ship(tmp_path, topic, str(folder), None, EVENT)
    assert topic.stamps == [at(minute) for minute in (5, 5, 5, 90, 90, 90, 7, 7, 7)]


def test_a_stream_has_the_times_of_what_came_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sluice.ship.lines.READ_BYTES", 64)
    lines, topic = ["x", timed(3), *["y"] * 40, timed(9), "z"], FakePublisher()
    shipper = ship(tmp_path, topic, str(_empty(tmp_path)), None, EVENT)
    shipper.ship_stream("-", nullcontext(io.BytesIO("\n".join(lines).encode())))
    assert topic.stamps == expected(lines)


def _empty(folder: Path) -> Path:
    (folder / "empty").write_text("")
    return folder / "empty"


def test_a_log_with_rotations_and_restarts(tmp_path):
    world = World(tmp_path, event=EVENT)

    def rename():
        world.log.rename(world.folder / "app.log.1")

    parts = [["x", timed(3), "x"], ["x", "x"], ["x", timed(2), "x"], ["x"], [timed(8), "x"]]
    world.follow(world.write(*parts[0]))
    world.follow(world.write(*parts[1]))
    world.follow(rename, world.write(*parts[2]))
    world.follow()
    world.follow(world.write(*parts[3]), world.write(*parts[4]))
    lines = [line for part in parts for line in part]
    assert world.events == lines
    assert world.topic.stamps == expected(lines)


def test_a_log_with_any_kill(tmp_path):
    parts = [[timed(3), "x"], ["x", "y", timed(5)], ["x", "z"], ["x", timed(1)], ["x"]]
    lines = [line for part in parts for line in part]
    kill_at, killed = 0, True
    while killed:
        kill_at += 1
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        world = World(folder, FakePublisher(kill_at=kill_at, serves_at_once=1), event=EVENT)
        acts = iter([world.write(*part) for part in parts])
        world.follow(rest=acts)
        killed = world.topic.calls >= kill_at
        world.topic.restart()
        world.follow(rest=acts)
        assert world.once == lines, kill_at
        assert [stamps(world.topic)[number] for number in range(1, len(lines) + 1)] == [
            {time} for time in expected(lines)
        ], kill_at
    assert kill_at > 20


def test_the_state_of_before_is_read():
    place = {"device": 1, "inode": 2, "batch": "b", "offset": 3, "line": 4, "mark": {"size": 0, "sha256": ""}}
    assert msgspec.convert(place, FilePosition).at is None
    known = msgspec.convert({**place, "at": 5}, FilePosition)
    assert asdict(known) == {**place, "at": 5, "done_ns": None}
