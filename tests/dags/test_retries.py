from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice import errors
from sluice.airflow.retries import final_errors_fail, final_reason

CURED = [
    errors.Unavailable("it is away"),
    errors.KafkaUnavailable("dc1", "127.0.0.1:9092", "refused"),
    errors.LakeUnavailable("s3://b", "time-out"),
    errors.ClickHouseUnavailable("127.0.0.1:8123", "refused"),
    errors.Fenced("a successor has the lease"),
    errors.Busy("another attempt is alive"),
    errors.ClockBehind("w1", "08:50", "09:00"),
]
FINAL = [
    errors.WrongUse("wrong"),
    errors.WrongPipeline("a.yaml", "kafka", "expected a list"),
    errors.UnknownTopic("dc1", "bids"),
    errors.TargetRefused("ads.clicks", "no _slice", "ALTER TABLE …"),
    errors.RecordsExpired("dc1", "bids", 0, "2026-11-20T10Z", 0, 7, True),
    errors.TopicRecreated("dc1", "bids", "A", "B"),
    errors.EndInFuture("2030", "2026"),
    errors.Conservation("7 is not 8"),
]


def fail(error: BaseException):
    @final_errors_fail
    def step():
        raise error

    return step


@pytest.mark.parametrize("error", CURED, ids=lambda e: type(e).__name__)
def test_what_a_retry_cures_passes_through(error: errors.SluiceError):
    with pytest.raises(type(error)) as raised:
        fail(error)()
    assert raised.value is error


@pytest.mark.parametrize("error", FINAL, ids=lambda e: type(e).__name__)
def test_what_no_retry_cures_fails_the_task_with_its_one_line(error: errors.SluiceError):
    with pytest.raises(AirflowFailException) as raised:
        fail(error)()
    assert str(raised.value) == str(error)


def test_an_unexpected_error_is_tried_again():
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())()


def test_the_step_keeps_its_name_documentation_and_result():
    @final_errors_fail
    def step(number: int) -> int:
        """Doubles."""
        return 2 * number

    assert (step.__name__, step.__doc__, step(21)) == ("step", "Doubles.", 42)


SAID = """Cannot execute: spark-submit …
Last spark-submit output:
landing
error: no topic 'bids'
10:00:00 ERROR ShutdownHookManager
"""


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_landing_that_says_what_is_wrong_is_final(code: int):
    assert final_reason(code, SAID) == "no topic 'bids'"


@pytest.mark.parametrize("code", [75, 70, 137, 143, -9, None])
def test_a_landing_that_a_retry_may_cure(code: int | None):
    assert final_reason(code, SAID) is None


def test_a_landing_that_broke_down_may_be_tried_again():
    assert final_reason(1, "Traceback (most recent call last):\nKeyError: 'a'") is None
