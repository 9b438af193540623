"""ClickHouse answers a statement with an error, done or not: one retry fences, looks, and does it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from local.services import ClickHouseServer
from sluice.clients.clickhouse.errors import RULES, Outcome, ServerError
from sluice.errors import ClickHouseUnavailable, Fenced
from sluice.flow.load.fencing import fences
from tests.faults.fault_log import FaultLog
from tests.faults.inserver_load import NEW, UNITS, Commit, Trials, expected
from tests.faults.wire_clickhouse import reached
from tests.faults.wire_http import Answer, HttpLayer
from tests.integration.landed import World, client_of
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

# What each has to be, written out here; test_clickhouse_errors.py has the whole table.
CODES = {
    **dict.fromkeys((241, 242, 252, 285), Outcome.RETRY),
    **dict.fromkeys((159, 209, 210, 286, 319, 341, 394, 999), Outcome.UNKNOWN),
    **dict.fromkeys((60, 497, 516), Outcome.FINAL),
}
STEPS = ("stage", "revoke", "delete", "reject", "move", "commit", "drop")
SHORT = 4
VICTIM = "answers of ClickHouse"


@pytest.fixture
def server(start_clickhouse_server: Callable[..., ClickHouseServer]) -> ClickHouseServer:
    return start_clickhouse_server()


@pytest.fixture
def trials(server: ClickHouseServer, tmp_path: Path) -> Trials:
    return Trials(World(tmp_path / "lake", client_of(server), "answers"), Commit.VIEW)


@pytest.fixture
def layer(server: ClickHouseServer) -> Iterator[HttpLayer]:
    with HttpLayer(server.port) as made:
        yield made


def refusal(code: int, message: str = "Injected") -> Answer:
    body = f"Code: {code}. DB::Exception: {message}. (NAME) (version 26.7.3.1)\n"
    return Answer(500, body.encode(), {"X-ClickHouse-Exception-Code": str(code)})


def statement(step: str) -> str:
    return rf"query_id=sluice-\w+-\d+-\d+-{step}-"


def refused_load(
    trials: Trials, layer: HttpLayer, step: str, answer: Answer, done: bool
) -> tuple[Exception, list[str], int]:
    """The error, what is wrong after one retry, and how many units the retry loaded."""
    table, pipeline, manifests = trials.prepare()
    struck = layer.struck
    layer.answer("POST", statement(step), answer, done=done)
    with pytest.raises((ServerError, ClickHouseUnavailable, Fenced)) as raised:
        reached(trials, layer).load(pipeline, *UNITS)
    assert layer.struck == struck + 1
    left = trials.state(table).leftovers
    fenced = any(name.startswith(fences(f"{trials.world.database}.{table}")) for name in left)
    assert step == "drop" or fenced == (step != "stage" or raised.value.retryable), (
        "only the first changes nothing"
    )
    retried = reached(trials, layer).load(pipeline, *UNITS)
    wrong = trials.differences(table, expected(NEW, manifests, trials.commit))
    return raised.value, wrong, len(retried.loaded)


@pytest.mark.long
def test_errors_in_the_middle_of_a_load(
    trials: Trials, layer: HttpLayer, fault_log: FaultLog, long_form: bool, seed: int
) -> None:
    chance = Random(seed)
    every = [(code, step, done) for code in CODES for step in STEPS for done in (False, True)]
    for code, step, done in every if long_form else chance.sample(every, SHORT):
        with fault_log.trial("fault", f"{code} at {step}, {'done' if done else 'undone'}", victim=VICTIM):
            error, wrong, _ = refused_load(trials, layer, step, refusal(code), done)
            assert isinstance(error, ServerError)
            assert (error.code, error.outcome) == (code, CODES[code])
            assert error.retryable == (CODES[code] is not Outcome.FINAL)
            assert wrong == []


@pytest.mark.parametrize("done", per_commit([False, True]))
def test_unknown_looks_before_it_does_it_again(
    trials: Trials, layer: HttpLayer, fault_log: FaultLog, done: bool
) -> None:
    """Two of three units are to be loaded. A commit that was done is found, another one redone."""
    with fault_log.trial("fault", f"319 at commit, {done}", victim=VICTIM):
        error, wrong, loaded = refused_load(trials, layer, "commit", refusal(319), done)
        assert error.outcome is Outcome.UNKNOWN
        assert loaded == (0 if done else 2)
        assert wrong == []


@pytest.mark.long
def test_a_proxys_answer_says_nothing_of_the_statement(
    trials: Trials, layer: HttpLayer, fault_log: FaultLog
) -> None:
    with fault_log.trial("fault", "502 at move, done", victim=VICTIM):
        error, wrong, _ = refused_load(trials, layer, "move", Answer(502, b"<h1>Bad Gateway</h1>"), done=True)
        assert isinstance(error, ClickHouseUnavailable)
        assert wrong == []


def test_a_missing_fence_table_means_that_a_successor_works(
    trials: Trials, layer: HttpLayer, fault_log: FaultLog
) -> None:
    """The same code as of a missing target, which is final."""
    table = f"{trials.world.database}.t1"
    gone = refusal(60, f"Unknown table expression identifier 'sluice.{fences(table)}2_1'")
    with fault_log.trial("fault", "60 of a fence at move, undone", victim=VICTIM):
        error, wrong, _ = refused_load(trials, layer, "move", gone, done=False)
        assert isinstance(error, Fenced)
        assert error.retryable
        assert wrong == []


def test_the_tables_names_are_the_servers(trials: Trials) -> None:
    for rule in RULES:
        assert trials.world.sql(f"SELECT errorCodeToName(toUInt32({rule.code}))") == [(rule.name,)]


def test_an_error_after_the_answer_has_begun(trials: Trials) -> None:
    """Progress headers follow a status of 200; an error later still is one, and nothing counts as done."""
    trials.world.sql("CREATE TABLE {db}.late (n UInt64) ENGINE = MergeTree ORDER BY n")
    progress = {"send_progress_in_http_headers": 1, "http_headers_progress_interval_ms": 10}
    sql = (
        f"INSERT INTO {trials.world.database}.late SELECT throwIf(sleepEachRow(0.05) = 0 AND number = 25) "
        "FROM numbers(30) SETTINGS max_block_size = 1"
    )
    with pytest.raises(ServerError) as raised:
        trials.world.client.run(sql, settings=progress)
    assert raised.value.code == 395


def test_a_view_with_more_partitions_than_an_insert_may_touch(trials: Trials) -> None:
    trials.world.sql("CREATE TABLE {db}.one (n UInt64) ENGINE = MergeTree ORDER BY n")
    trials.world.sql(
        "CREATE MATERIALIZED VIEW {db}.fine ENGINE = MergeTree PARTITION BY n ORDER BY n "
        "AS SELECT n FROM {db}.one"
    )
    with pytest.raises(ServerError, match="partition it more coarsely") as raised:
        trials.world.sql("INSERT INTO {db}.one SELECT number FROM numbers(101)")
    assert (raised.value.code, raised.value.outcome) == (252, Outcome.FINAL)
