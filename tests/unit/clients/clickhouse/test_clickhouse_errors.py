"""Every error of ClickHouse: retried, unknown or final. What is expected is written out here, row by row."""

from __future__ import annotations

import pickle

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, StreamFailureError
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import RULES, Outcome, ServerError
from sluice.errors import ClickHouseUnavailable, SluiceError

RETRY = (173, 201, 202, 225, 241, 242, 243, 252, 285, 289, 439, 473, 517, 692, 745)
UNKNOWN = (95, 96, 159, 209, 210, 216, 236, 286, 319, 341, 394, 499, 735, 999)
FINAL = (0, 47, 60, 62, 81, 164, 192, 193, 232, 452, 469, 497, 516)
EXPECTED = {
    **dict.fromkeys(RETRY, Outcome.RETRY),
    **dict.fromkeys(UNKNOWN, Outcome.UNKNOWN),
    **dict.fromkeys(FINAL, Outcome.FINAL),
}


class Failing:
    """A driver whose every statement ends with `error`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def query(self, *_: object, **__: object) -> None:
        raise self.error

    command = query


def raised_by(error: Exception) -> SluiceError:
    client = Client(Failing(error), "ch:8123")
    with pytest.raises(SluiceError) as asked:
        client.rows("SELECT 1")
    with pytest.raises(SluiceError) as told:
        client.run("INSERT INTO t SELECT 1")
    assert type(asked.value) is type(told.value)
    return told.value


def answer(code: int, message: str = "why") -> DatabaseError:
    said = f"Code: {code}. DB::Exception: {message} (NAME) (version 26.7.3.1)"
    text = f"Received ClickHouse exception, code: {code}, server response: {said} (for url http://ch:8123)"
    return DatabaseError(text, code=code, name="NAME")


@pytest.mark.parametrize(("code", "outcome"), EXPECTED.items())
def test_every_code(code: int, outcome: Outcome) -> None:
    error = raised_by(answer(code))
    assert isinstance(error, ServerError)
    assert (error.code, error.outcome) == (code, outcome)
    assert error.retryable == (outcome is not Outcome.FINAL)
    assert str(error).startswith("ClickHouse ch:8123, INSERT INTO t SELECT 1: NAME: why")
    assert "\n" not in str(error)
    assert pickle.loads(pickle.dumps(error)).outcome is outcome


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("HTTP response code: 404: while reading 'a.parquet'", "verify says which file"),
        ("Access Denied, HTTP response code: 403", "named collection"),
    ],
)
def test_what_a_lake_in_s3_refuses_is_final(said: str, remedy: str) -> None:
    error = raised_by(answer(499, f"Failed to get object info. {said}"))
    assert not error.retryable
    assert remedy in str(error).rpartition(";")[2]


def test_every_row_of_the_table_is_expected_here() -> None:
    assert {rule.code for rule in RULES} <= set(EXPECTED)


def test_no_rule_hides_another() -> None:
    seen: list[tuple[int, str]] = []
    for rule in RULES:
        assert not any(code == rule.code and says in rule.says for code, says in seen)
        seen.append((rule.code, rule.says))


def test_too_many_partitions_in_a_views_table_is_final() -> None:
    """The target's own are inserted in ranges; what is left no retry cures. The text is ClickHouse 26.7's."""
    error = raised_by(
        answer(252, "Too many partitions for single INSERT block (more than 100). The limit is")
    )
    assert error.outcome is Outcome.FINAL
    assert "partition it more coarsely" in str(error)
    waits = raised_by(
        answer(252, "Too many parts (3001 with average size of 1.00 KiB) in table db.t. Merges")
    )
    assert waits.outcome is Outcome.RETRY


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(241, "more memory"), (243, "free disk"), (497, "grant"), (516, "password"), (242, "Keeper"),
     (60, "make it again"), (164, "profile"), (394, "try again later"), (47, "see the server's log")],
)  # fmt: skip
def test_the_message_says_what_to_do(code: int, remedy: str) -> None:
    assert remedy in str(raised_by(answer(code)))


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("Error executing HTTP request attempt 1 (http://ch:8123)"),
        DatabaseError(
            "HTTP driver received HTTP status 502, server response: Bad Gateway (for url http://h)"
        ),
        DatabaseError("HTTP driver received HTTP status 500 (for url http://h)"),
        OperationalError("HTTP driver received HTTP status 429, server response: slow down"),
        StreamFailureError("the stream was cut"),
        ProtocolError("Connection broken"),
        ReadTimeoutError(None, "/", "Read timed out."),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
    ],
    ids=repr,
)
def test_no_answer_is_unknown_too(error: Exception) -> None:
    """The server said nothing, so the statement may have been done: it is retried."""
    told = raised_by(error)
    assert isinstance(told, ClickHouseUnavailable)
    assert told.retryable


@pytest.mark.parametrize(
    "error",
    [
        DatabaseError("HTTP driver received HTTP status 404, server response: Not Found"),
        answer(62, "Syntax error"),
    ],
    ids=repr,
)
def test_a_refusal_is_final(error: Exception) -> None:
    assert not raised_by(error).retryable
