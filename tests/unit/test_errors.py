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
    values = {"str": "text", "int": 7, "bool": True}
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
    assert {"KafkaOutOfReach", "LakeOutOfReach", "ClickHouseOutOfReach", "Fenced", "Busy"} <= retryable
    final = {"WrongUse", "WrongPipeline", "LakeRefused", "TargetRefused", "RecordsExpired", "Conservation"}
    assert not final & retryable


def test_wrong_use_exits_with_two() -> None:
    assert {kind.exit_code for kind in CLASSES if issubclass(kind, errors.WrongUse)} == {2}


def test_amount_lost() -> None:
    lost = errors.RecordsExpired("dc1", "clicks", 3, "2026-11-20T10Z", 100, 142, True)
    assert "no longer has 42 offsets [100, 142) of dc1/clicks/3" in str(lost)
    lost = errors.RecordsExpired("dc1", "clicks", 3, "2026-11-20T10Z", 100, 142, False)
    assert "at most 42 offsets" in str(lost)
