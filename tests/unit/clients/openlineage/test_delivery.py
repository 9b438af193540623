"""Lineage events leave by a thread of their own: nothing that happens to them reaches the run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.clients.openlineage import delivery
from sluice.clients.openlineage.delivery import (
    Delivery,
    JobKind,
    LineageEvent,
    RunOfJob,
    RunState,
    Sender,
    reason,
)
from tests.support.lineage_server import lineage_server


def begun() -> LineageEvent:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    run = RunOfJob("ads", "sluice.ads.land", "00000000-0000-0000-0000-000000000001")
    return LineageEvent(RunState.START, now, run, JobKind.STEP, now, now)


def sender(send: Callable[[Any], None], close: Callable[[], object] = lambda: None) -> Sender:
    return Sender(send, close, lambda: "id")


def test_events_are_made_and_sent_in_their_order():
    sent: list[int] = []
    there = Delivery(sender(sent.append))
    for number in range(100):
        there.put(lambda number=number: number)
    there.close()
    assert sent == list(range(100))


def test_a_server_that_never_answers_costs_the_patience_and_one_line(caplog: pytest.LogCaptureFixture):
    released = threading.Event()
    there = Delivery(sender(lambda _: released.wait()))
    began = time.monotonic()
    for _ in range(3):
        there.put(lambda: None)
    assert time.monotonic() - began < 1
    with caplog.at_level(logging.WARNING):
        there.close(patience=0.2)
    assert time.monotonic() - began < 3
    released.set()
    [said] = caplog.messages
    assert said.startswith("lineage: 3 of 3 events were not delivered (no answer within")


@pytest.mark.parametrize(
    ("server", "why"),
    [({"status": 401}, "HTTPError 401"), ({"status": 503}, "no answer"), ({"silent": True}, "no answer")],
    ids=["refuses", "fails", "never answers"],
)
def test_the_clients_own_transport_and_a_server_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, server: dict[str, Any], why: str
):
    """Over HTTP; the client tries a server that fails again and again."""
    from sluice.clients.openlineage.open_client import open_sender

    with lineage_server(**server) as found:
        monkeypatch.setenv("OPENLINEAGE_URL", found.url)
        real = open_sender()
        assert real is not None
        there, began = Delivery(real), time.monotonic()
        for _ in range(2):
            there.put(begun)
        put = time.monotonic() - began
        with caplog.at_level(logging.WARNING):
            there.close(patience=1)
        took = time.monotonic() - began
    assert put < 1 and took < 3
    [said] = [record.getMessage() for record in caplog.records if record.name == delivery.__name__]
    assert said.startswith(f"lineage: 2 of 2 events were not delivered ({why}")


def test_what_a_transport_raises_is_one_line_without_its_text(caplog: pytest.LogCaptureFixture):
    def refuses(_: object) -> None:
        raise ConnectionError("http://user:password@host refused")

    there = Delivery(sender(refuses, close=lambda: 1 / 0))
    there.put(lambda: None)
    with caplog.at_level(logging.WARNING):
        there.close()
    [said] = caplog.messages
    assert "1 of 1 events were not delivered (ZeroDivisionError)" in said
    assert "password" not in said


def test_an_event_that_cannot_be_made_loses_no_other(caplog: pytest.LogCaptureFixture):
    sent: list[str] = []
    there = Delivery(sender(sent.append))
    there.put(lambda: "first")
    there.put(lambda: 1 / 0)
    there.put(lambda: "third")
    with caplog.at_level(logging.WARNING):
        there.close()
    assert sent == ["first", "third"]
    assert "1 of 3 events" in caplog.text


def test_more_events_than_may_wait_are_lost_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(delivery, "WAITING", 2)
    started, released, sent = threading.Event(), threading.Event(), []

    def waits(event: int) -> None:
        started.set()
        assert released.wait(30)
        sent.append(event)

    there = Delivery(sender(waits))
    there.put(lambda: 0)
    assert started.wait(30)
    for number in range(1, 6):
        there.put(lambda number=number: number)
    with caplog.at_level(logging.WARNING):
        there.close()
    released.set()
    assert "of 6 events were not delivered (more than 2 were waiting)" in caplog.text


def test_an_http_answer_is_named_by_its_status():
    error = RuntimeError("http://user:password@host")
    error.response = type("Answer", (), {"status_code": 503})()
    assert reason(error) == "RuntimeError 503"
