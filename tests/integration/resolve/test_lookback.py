"""`sluice run --lookback` does in one process what the runs of the hourly DAG do, after an outage and killed.

The steps, the lake and ClickHouse are real; Kafka and Spark stand in. The events say which rows are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sluice.errors import ClusterWaits, KafkaUnavailable, RecordsExpired, Refused, TargetRefused, UnknownTopic
from sluice.flow import batch_loop, choose_backlog, forget, hourly, steps
from sluice.flow.batch_loop import one_by_one
from sluice.flow.forget import Forgetting
from sluice.flow.hourly import newest_slices, run_hour
from sluice.slices import SliceRange
from tests.integration.resolve.test_backlog import HOURS, START, Hourly
from tests.integration.resolve.test_backlog import hourly as hourly_world  # noqa: F401 (a fixture)
from tests.support.fakes import FakeTopic
from tests.support.landing_world import event

pytestmark = pytest.mark.integration


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def world(hourly_world: Hourly, monkeypatch: pytest.MonkeyPatch) -> Hourly:  # noqa: F811
    monkeypatch.setattr(steps, "note_topics", lambda *_: None)
    (Path(hourly_world.lake.url.removeprefix("file://")).parent / "p.yaml").write_text("{}")
    return hourly_world


def command(world: Hourly, hour: int, kill: Callable[[str], None] = lambda _: None) -> tuple[int, list[str]]:
    """The command, started five minutes after `hour`. `kill` may end it at a step."""
    said: list[str] = []

    def land(batch: SliceRange) -> int:
        kill("before a landing")
        try:
            world.world.land(world.pipeline, world.lake, batch)
        except RecordsExpired as error:
            said.append(str(error))
            return 1
        kill("after a landing")
        return 0

    def say(line: str) -> None:
        said.append(line)
        kill(line)

    path = Path(world.lake.url.removeprefix("file://")).parent / "p.yaml"
    slices = newest_slices(world.pipeline, world.at(hour))
    ran = run_hour(world.pipeline, path, slices, "t", partial(one_by_one, land), lambda _: land, say)
    return ran.code, said


def test_after_a_long_outage_it_brings_what_the_runs_of_the_dag_bring(world: Hourly):
    """As test_backlog.py tries the DAG's tasks: nothing runs from hour 30 on until hour 85."""
    assert command(world, 30)[0] == 0
    assert world.rows == world.published(*range(6), *range(30, HOURS))
    code, said = command(world, 85)
    assert code == 0
    assert world.rows == world.published(*range(6), *range(85, HOURS))
    older = [line for line in said if line.startswith("older hours: ")]
    assert "[2026-01-02T06:00Z," in older[0] and "2026-01-03T13:00Z)" in older[-1]
    assert not choose_backlog.seen_backlog(world.pipeline, world.lake, START.add(hours=61)).states
    assert "nothing to do: every slice is complete" in command(world, 85)[1]


@pytest.mark.long
def test_the_dag_and_the_command_take_turns(world: Hourly):
    command(world, 29)
    assert world.run(30) == []
    command(world, 85)
    assert world.run(86) == []
    command(world, 87)
    assert world.rows == world.published(*range(5), *range(87, HOURS))


@pytest.mark.long
def test_killed_at_each_step_it_leaves_each_record_once(world: Hourly):
    """Each start lives one step longer than the one before, until one lives to its end."""
    command(world, 30)
    lived = 0
    while True:
        steps_left = lived

        def kill(_: str) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left < 0:
                raise Killed

        try:
            code, _ = command(world, 85, kill)
            break
        except Killed:
            rows = world.rows
            assert max(rows.values()) == 1 and not rows - world.published(*range(6))
            lived += 1
    assert code == 0 and lived > 8
    assert world.rows == world.published(*range(6), *range(85, HOURS))


@pytest.mark.long
def test_a_cluster_that_is_away_fails_it_at_last_and_is_caught_up_with(world, monkeypatch):
    own = {"topics": ["bids"], "bootstrap": "nowhere:1"}
    both = [{"cluster": name, **own} for name in ("dc1", "dc2")]
    kafka = world.world.kafka
    world.world.logs["dc2", "bids"] = [[event("click", 60 * h + 5, n=1000 + h) for h in range(HOURS)]]
    stamps = {0: [at for _, at in world.world.logs["dc2", "bids"][0]]}
    kafka.topics["dc2", "bids"] = FakeTopic("id-dc2", stamps)
    world.pipeline = type(world.pipeline).model_validate(
        {**world.pipeline.model_dump(exclude_defaults=True), "kafka": both, "start": START.add(hours=5)}
    )

    def probe(cluster, *_):
        return KafkaUnavailable("dc2", "nowhere:1", "silent") if cluster.cluster in kafka.silent else None

    monkeypatch.setattr(batch_loop, "probe_cluster", probe)
    command(world, 6)
    kafka.silent.add("dc2")
    for hour in (20, 42):
        with pytest.raises(ClusterWaits, match="dc2"):
            command(world, hour)
    first = Counter([(int(START.timestamp()) + 3600 * 5, 1005)])
    assert world.rows == world.published(*range(5), *range(42, HOURS)) + first
    kafka.silent.clear()
    assert command(world, 43)[0] == 0
    late = Counter((int(START.timestamp()) + 3600 * h, 1000 + h) for h in range(5, 43))
    assert world.rows == world.published(*range(5), *range(43, HOURS)) + late


@pytest.mark.long
def test_what_keeps_it_from_older_hours_fails_it_after_its_own(world: Hourly, monkeypatch):
    command(world, 30)

    def unknown(*_):
        raise UnknownTopic("dc1", "bids")

    monkeypatch.setattr(choose_backlog, "older_batches", unknown)
    with pytest.raises(Refused, match=r"^hours before 2026-01-03T13:00Z were left out: .*bids"):
        command(world, 85)
    assert world.rows == world.published(*range(6), *range(30, 61), *range(85, HOURS))


@pytest.mark.long
def test_a_batch_that_a_person_has_to_mend_holds_up_no_other_nor_the_old_files(world: Hourly, monkeypatch):
    command(world, 30)
    own = newest_slices(world.pipeline, world.at(85))
    load, forgotten = steps.load_table, []

    def refuses_own(pipeline, table, batch, *rest):
        if batch.end == own.end:
            raise TargetRefused(table, "it is another one", "mend it")
        return load(pipeline, table, batch, *rest)

    monkeypatch.setattr(steps, "load_table", refuses_own)
    monkeypatch.setattr(hourly, "forget_hourly", lambda *_: forgotten.append(1) or Forgetting())
    world.pipeline = world.pipeline.model_copy(update={"keep": forget.Keep(lake="400d")})
    with pytest.raises(TargetRefused, match="it is another one"):
        command(world, 85)
    assert world.rows == world.published(*range(6), *range(61, HOURS))
    assert forgotten == [1]
