"""Ports for services that are started: one service asks for several before it listens on any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from local import readiness
from local.services import KafkaBroker, kafka_broker


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterable[int]], None]:
    """Nothing listens anywhere, and chance draws these ports."""
    monkeypatch.setattr(readiness, "can_bind", lambda port: True)

    def drawn(ports: Iterable[int]) -> None:
        left = iter(ports)
        monkeypatch.setattr(readiness.random, "randrange", lambda *_: next(left))

    return drawn


def test_no_port_is_given_twice(draws: Callable[[Iterable[int]], None]):
    draws([1_001, 1_001, 1_000, 1_002, 1_003, 1_004])
    assert [readiness.free_port(), readiness.free_port(neighbours=1)] == [1_001, 1_002]
    assert readiness.free_port() == 1_004


def test_the_ports_of_a_broker_are_different(
    draws: Callable[[Iterable[int]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    draws([2_001, 2_001, 2_002, 2_001, 2_002, 2_003])
    monkeypatch.setattr(KafkaBroker, "start", lambda broker: broker)
    broker = kafka_broker(tmp_path, sasl={"me": "x"})
    assert (broker.port, broker.options[:2], broker.sasl_port) == (
        2_001,
        ["--controller-port", "2002"],
        2_003,
    )
