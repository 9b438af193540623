"""Any history of a pipeline leaves exactly the rows that a plain model says: each operation changes what it
says.

The operations are those of a person over months: hours are landed, loaded and repaired while the pipeline
file changes, topics leave it and return, people are erased, rejected records are brought in, the lake
forgets.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from local.services import ClickHouseServer
from sluice.errors import CannotRemake, FilesForgotten, NotAllLanded, WouldReject
from sluice.flow.verify.anomaly import AnomalyKind
from tests.integration.landed import client_of
from tests.support.history_model import HOURS, PEOPLE, TOPICS, FileNow, Model
from tests.support.history_world import HistoryWorld, logs
from tests.support.landing_world import hours
from tests.support.shards_world import point_at

pytestmark = pytest.mark.integration

SPANS = st.sampled_from([(a, b) for a in range(HOURS) for b in range(a + 1, HOURS + 1)])


class History(RuleBasedStateMachine):
    servers: Sequence[ClickHouseServer] = ()
    folder: Path
    numbers = itertools.count()

    @initialize()
    def begin(self) -> None:
        number = next(History.numbers)
        clients = [client_of(server) for server in History.servers]
        name = f"history_{uuid.uuid4().hex[:8]}"
        self.world = HistoryWorld(History.folder / str(number), clients, name)
        self.model = Model(logs())

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()

    def says(self, **changes: object) -> None:
        self.model.file = self.world.file = FileNow(**{**vars(self.model.file), **changes})

    @rule(time=st.sampled_from(["at", "ts"]))
    def rename_time(self, time: str) -> None:
        self.says(time=time)

    @rule(column=st.sampled_from(["passenger", "person"]))
    def rename_column(self, column: str) -> None:
        self.says(column=column)

    @rule(vip=st.sampled_from(["no", "yes", "perhaps"]))
    def alter_default(self, vip: str) -> None:
        self.world.everywhere(
            f"ALTER TABLE {self.world.database}.clicks MODIFY COLUMN vip String DEFAULT '{vip}'"
        )
        self.says(vip=vip)

    @rule()
    def add_shard(self) -> None:
        """What is loaded is stale until it is loaded again."""
        self.says(shards=2)
        for hour in sorted(self.model.units):
            self.run((hour, hour + 1), "fill")

    @rule(evolve=st.booleans())
    def add_columns(self, evolve: bool) -> None:
        self.says(evolve=evolve)

    @rule(span=SPANS, mode=st.sampled_from(["fill", "fill", "reload", "repair"]))
    def run(self, span: tuple[int, int], mode: str) -> None:
        if mode != "fill" and self.model.forgotten(range(*span)):
            with pytest.raises(FilesForgotten):
                self.world.run(mode, hours(span[1] - span[0], span[0]))
            return
        self.world.run(mode, hours(span[1] - span[0], span[0]))
        getattr(self.model, mode)(range(*span))

    @rule(until=st.integers(1, HOURS))
    def forget(self, until: int) -> None:
        assert self.world.forget(until) == self.model.forget(until)

    @rule(topics=st.sampled_from([TOPICS, TOPICS[:1]]))
    def choose_topics(self, topics: tuple[str, ...]) -> None:
        self.says(topics=frozenset(topics))

    @rule(span=SPANS)
    def reland(self, span: tuple[int, int]) -> None:
        self.world.run("reland", hours(span[1] - span[0], span[0]))
        self.model.reland(range(*span))

    @rule(span=SPANS)
    def remake(self, span: tuple[int, int]) -> None:
        """With a yes it takes rows out that the file can't read any more. An hour without files stays."""
        refused = (NotAllLanded, CannotRemake) if self.model.forgotten(range(*span)) else ()
        with pytest.raises(refused) if refused else nullcontext():
            self.world.run("remake", hours(span[1] - span[0], span[0]), accept_loss=True)
        self.model.remake(range(*span))

    @rule(span=SPANS, mode=st.sampled_from(["remake", "reland"]))
    def land_again_without_a_yes(self, span: tuple[int, int], mode: str) -> None:
        """An hour that would lose a row stays as it is; the others are landed again."""
        if self.model.forgotten(range(*span)):
            return
        losing = self.model.losing(mode, range(*span))
        if losing:
            with pytest.raises((WouldReject, NotAllLanded), match="would reject"):
                self.world.run(mode, hours(span[1] - span[0], span[0]), accept_loss=False)
        else:
            self.world.run(mode, hours(span[1] - span[0], span[0]), accept_loss=False)
        getattr(self.model, mode)([hour for hour in range(*span) if hour not in losing])

    @rule(span=SPANS)
    def retry(self, span: tuple[int, int]) -> None:
        before = len(self.model.lake_rows())
        self.model.retry(range(*span))
        came_in = self.world.retry(hours(span[1] - span[0], span[0]))
        assert came_in == len(self.model.lake_rows()) - before

    @precondition(lambda self: self.model.units)
    @rule(person=st.sampled_from(PEOPLE))
    def erase(self, person: str) -> None:
        before = len(self.model.lake_rows())
        again = person in self.model.erased
        self.model.erase(person)
        receipt = self.world.erase(person)
        # What tables hold of an hour without files is for their owner to search, and the receipt says so.
        assert bool(receipt["left"]) == self.model.forgotten(range(HOURS))
        assert again or receipt["erased"]["rows"] == before - len(self.model.lake_rows())

    @precondition(lambda self: self.model.clicks())
    @rule(data=st.data())
    def damage_and_repair(self, data: st.DataObject) -> None:
        """A row vanishes from the table: the command that verify prints brings it back, and nothing else. An
        hour that is stale by a new shard is not compared: a fill places all of its rows anew."""
        topic, offset, *_ = data.draw(st.sampled_from(sorted(self.model.clicks())))
        self.world.everywhere(
            f"ALTER TABLE {self.world.database}.clicks DELETE "
            f"WHERE _topic = '{topic}' AND _offset = {offset} SETTINGS mutations_sync = 2"
        )
        commands = {anomaly.command for anomaly in self.world.findings() if anomaly.table.endswith(".clicks")}
        hour = offset // len(self.model.logs[topic, 0])
        if not commands:
            assert hour in self.world.stale()
            self.world.run("fill", hours(1, hour))
            return
        assert len(commands) == 1, commands
        self.world.repair(*commands)
        if self.model.units[hour].forgotten:
            self.model.reland([hour])

    @invariant()
    def each_row_is_where_the_model_says(self) -> None:
        if not hasattr(self, "world"):
            return
        assert self.world.lake_rows() == self.model.lake_rows()
        assert self.world.lake_rows(rejected=True) == self.model.lake_rejected()
        clicks, others = self.world.clicks(), self.world.others()
        assert len(clicks) == len(set(clicks)) and len(others) == len(set(others))
        assert set(clicks) == self.model.clicks()
        assert set(others) == self.model.others()

    @precondition(lambda self: self.model.units)
    @rule()
    def verify(self) -> None:
        """What the model calls right is right for verify, too."""
        landed = {f"2026-01-01T{hour:02}Z" for hour in self.model.units}
        # A topic that came back since the last run is not known at the hours without it.
        known = self.model.file.topics & self.world.resolved
        lacking = {f"2026-01-01T{h:02}Z" for h, u in self.model.units.items() if known - u.topics}
        found = [a for a in self.world.findings() if a.slice in landed]
        assert [a for a in found if a.kind is not AnomalyKind.LACKING] == []
        assert {a.slice for a in found} == lacking


@pytest.fixture
def machine(clickhouse_servers, tmp_path, monkeypatch: pytest.MonkeyPatch) -> type[History]:
    for number, server in enumerate(clickhouse_servers[:2], start=1):
        point_at(monkeypatch, f"s{number}", server.port)
    History.servers, History.folder = clickhouse_servers[:2], tmp_path
    return History


def tried(machine: type[History], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=8,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_some_histories(machine: type[History]):
    tried(machine, int(os.environ.get("SLUICE_HISTORIES", "2")))


@pytest.mark.long
def test_hundreds_of_histories(machine: type[History]):
    tried(machine, 300)
