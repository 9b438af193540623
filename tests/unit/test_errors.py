from __future__ import annotations

import dataclasses
import inspect
import pickle

import pytest

from sluice import errors

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.SluiceError)]


def example(kind: type[errors.SluiceError]) -> errors.SluiceError:
    if not dataclasses.is_dataclass(kind):
        return kind("what happened, and what to do")
    values = {"str": "text", "int": 7, "bool": True, "frozenset[tuple[str, str]]": frozenset()}
    return kind(*(values[str(field.type)] for field in dataclasses.fields(kind)))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_one_line_with_an_exit_code(kind: type[errors.SluiceError]) -> None:
    text = str(example(kind))
    assert text
    assert "\n" not in text
    assert kind.exit_code in (1, 2, 3)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_travel_between_processes(kind: type[errors.SluiceError]) -> None:
    sent = example(kind)
    arrived = pickle.loads(pickle.dumps(sent))
    assert type(arrived) is kind
    assert str(arrived) == str(sent)


def test_what_a_retry_cures() -> None:
    retryable = {kind.__name__ for kind in CLASSES if kind.retryable}
    assert {"KafkaUnavailable", "LakeUnavailable", "ClickHouseUnavailable", "Fenced", "Busy"} <= retryable
    final = {"WrongUse", "WrongPipeline", "LakeRefused", "TargetRefused", "RecordsExpired", "Conservation"}
    assert not final & retryable


def test_wrong_use_exits_with_two() -> None:
    assert {kind.exit_code for kind in CLASSES if issubclass(kind, errors.WrongUse)} == {2}


def test_amount_lost() -> None:
    lost = errors.RecordsExpired("dc1", "clicks", 3, "2026-11-20T10Z", 100, 142, True)
    assert "no longer has 42 offsets [100, 142) of dc1/clicks/3" in str(lost)
    lost = errors.RecordsExpired("dc1", "clicks", 3, "2026-11-20T10Z", 100, 142, False)
    assert "at most 42 offsets" in str(lost)


LOST = ("dc1", "clicks", 3, "2026-11-20T10Z", 100, 142)
WAITING = ("2026-11-20T10Z", "2026-11-20T12Z", "away", "sluice run ads")
CAUGHT_UP = (
    "away. The other clusters are done. The next hourly run catches up; to do it now: `sluice run ads`"
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.Busy("another attempt holds the lease"), "another attempt holds the lease"),
        (
            errors.KafkaUnavailable("dc'1", "k:9092", "{reason}"),
            "Kafka cluster \"dc'1\" does not answer at k:9092 ({reason}): check that the broker runs and "
            "that the address in the pipeline file or connection is right",
        ),
        (
            errors.ClusterWaits("dc2", 1, *WAITING),
            f"hour 2026-11-20T10Z has not landed from Kafka cluster 'dc2': {CAUGHT_UP}",
        ),
        (
            errors.ClusterRefused("dc2", 3, *WAITING),
            "3 hours have not landed from Kafka cluster 'dc2' (2026-11-20T10Z … 2026-11-20T12Z): "
            + CAUGHT_UP,
        ),
        (
            errors.ShardsWait("e.c", "shard b: down", "a"),
            "table e.c: shard b: down; loaded on a; the next run catches up; repeat a reload",
        ),
        (
            errors.ShardsRefused("e.c", "shard b: no right", ""),
            "table e.c: shard b: no right; correct that, and load again",
        ),
        (
            errors.RecordsExpired(*LOST, False, remedy="it stays as it is"),
            "slice 2026-11-20T10Z: Kafka no longer has at most 42 offsets [100, 142) of dc1/clicks/3 "
            "(retention): it stays as it is",
        ),
        (
            errors.RecordsExpired(*LOST, True),
            "slice 2026-11-20T10Z: Kafka no longer has 42 offsets [100, 142) of dc1/clicks/3 (retention): "
            "set `on_expired: land_rest` to land what is left and record the loss, or begin later",
        ),
        (
            errors.NotAllLanded.of(list("abcde"), 1200, errors.Refused("no")),
            "a, b, c and 2 more did not land, 1,200 other units did: no",
        ),
    ],
)  # fmt: skip
def test_messages(error: errors.SluiceError, text: str) -> None:
    assert str(error) == text
    assert str(pickle.loads(pickle.dumps(error))) == text


@pytest.mark.parametrize(
    "kind", [c for c in CLASSES if dataclasses.is_dataclass(c)], ids=lambda kind: kind.__name__
)
def test_a_message_says_every_field(kind: type[errors.SluiceError]) -> None:
    """But those that choose words, and the environment's flag."""
    values = {"str": "text of {}", "int": 7, "bool": True, "frozenset[tuple[str, str]]": frozenset()}
    fields = dataclasses.fields(kind)
    error = kind(*(f"<{f.name}>" if f.type == "str" else values[str(f.type)] for f in fields))
    assert [f.name for f in fields if f.type == "str" and f"<{f.name}>" not in str(error)] == []
