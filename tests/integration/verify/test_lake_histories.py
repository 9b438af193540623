"""Any history of a lake without tables leaves exactly the records that a plain model says, each hidden by the
key that hid it first.

test_history.py does the same with tables: each load takes a second, so that fewer histories run.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
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

from sluice.errors import CannotRemake, NotAllLanded, RuleGone, WouldReject
from tests.support.history_model import HOURS, PEOPLE, TOPICS, FileNow, Model, Record, UnitModel
from tests.support.history_world import HistoryWorld, logs
from tests.support.landing_world import hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

SPANS = st.sampled_from([(a, b) for a in range(HOURS) for b in range(a + 1, HOURS + 1)])
OLD_KEY, NEW_KEY = "a key of sixteen or more", "another key, as long as it"


@dataclass
class MaskedModel(Model):
    """`hidden`: by which key a record's `uid` is hidden in the lake. `hides`: hours whose rules have a
    mask."""

    hidden: dict[Record, str] = field(default_factory=dict)
    hides: set[int] = field(default_factory=set)

    @property
    def key(self) -> str | None:
        return self.file.keys[0] if self.file.keys else None

    def landed_by_file(self, hour: int, topics: frozenset[str]) -> UnitModel:
        unit = super().landed_by_file(hour, topics)
        self._hide(hour, unit, bool(self.key))
        return unit

    def _hide(self, hour: int, unit: UnitModel, hides: bool) -> None:
        """The records come from Kafka, where nothing is hidden."""
        (self.hides.add if hides else self.hides.discard)(hour)
        for record in unit.rows | unit.rejected:
            self.hidden.pop(record, None)
            if hides:
                self.hidden[record] = self.key

    def without_key(self, span: Iterable[int]) -> bool:
        return not self.key and any(hour in self.hides for hour in span)

    def reland(self, span: Iterable[int]) -> None:
        for hour in span:
            if self.without_key([hour]):
                continue
            hides = hour in self.hides if hour in self.units else bool(self.key)
            super().reland([hour])
            self._hide(hour, self.units[hour], hides)

    def _hide_by_file(self, records: Iterable[Record]) -> None:
        """What is hidden is not hidden again."""
        if self.key:
            for record in records:
                self.hidden.setdefault(record, self.key)

    def remake(self, span: Iterable[int]) -> None:
        span = list(span)
        super().remake(span)
        for hour in span:
            if not self.units[hour].forgotten:
                self._hide_by_file(self.units[hour].rows | self.units[hour].rejected)
                (self.hides.add if self.key else self.hides.discard)(hour)

    def retry(self, span: range) -> None:
        before = {record for unit in self.units.values() for record in unit.rows}
        super().retry(span)
        self._hide_by_file({record for unit in self.units.values() for record in unit.rows} - before)

    def erase(self, person: str) -> None:
        """Nobody finds a person who is hidden by a key that the file doesn't have."""
        self.erased.add(person)
        for unit in self.units.values():
            if not unit.forgotten:
                found = {
                    record
                    for record in unit.rows | unit.rejected
                    if record.person == person and self.hidden.get(record) in (None, *self.file.keys)
                }
                unit.rows -= found
                unit.rejected -= found

    def lake(self, rejected: bool = False) -> set[tuple[str, int, str]]:
        return {
            (*record.place, self._text(record))
            for unit in self.units.values()
            if not unit.forgotten
            for record in (unit.rejected if rejected else unit.rows)
        }

    def _text(self, record: Record) -> str:
        """docs/guide/privacy.md says what a hash is, and that all other bytes stay."""
        if record not in self.hidden:
            return record.value
        digits = hmac.new(self.hidden[record].encode(), record.person.encode(), hashlib.sha256).hexdigest()
        return record.value.replace(json.dumps(record.person), json.dumps(f"hmac256:{digits}"))


class LakeHistory(RuleBasedStateMachine):
    folder: Path
    numbers = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.world = HistoryWorld(LakeHistory.folder / str(next(LakeHistory.numbers)))
        self.model = MaskedModel(logs())

    def says(self, **changes: object) -> None:
        self.model.file = self.world.file = FileNow(**{**vars(self.model.file), **changes})

    @rule(time=st.sampled_from(["at", "ts"]))
    def rename_time(self, time: str) -> None:
        self.says(time=time)

    @rule(topics=st.sampled_from([TOPICS, TOPICS[:1]]))
    def choose_topics(self, topics: tuple[str, ...]) -> None:
        self.says(topics=frozenset(topics))

    @rule(keys=st.sampled_from([(), (OLD_KEY,), (NEW_KEY, OLD_KEY)]))
    def mask(self, keys: tuple[str, ...]) -> None:
        self.says(keys=keys)

    @rule(span=SPANS)
    def fill(self, span: tuple[int, int]) -> None:
        self.world.run("fill", hours(span[1] - span[0], span[0]))
        self.model.fill(range(*span))

    @rule(until=st.integers(1, HOURS))
    def forget(self, until: int) -> None:
        assert self.world.forget(until) == self.model.forget(until)

    @rule(span=SPANS, mode=st.sampled_from(["remake", "reland"]), yes=st.booleans())
    def land_again(self, span: tuple[int, int], mode: str, yes: bool) -> None:
        """An hour that would lose a row without a yes stays as it is, as does one whose key the file lacks
        and one without files in a remake; the others are landed again."""
        refused: set[int] = set()
        if mode == "reland":
            refused |= {hour for hour in range(*span) if self.model.without_key([hour])}
        else:
            refused |= {hour for hour in range(*span) if self.model.forgotten([hour])}
        if not yes:
            refused |= set(self.model.losing(mode, range(*span)))
        with pytest.raises((NotAllLanded, WouldReject, CannotRemake, RuleGone)) if refused else nullcontext():
            self.world.run(mode, hours(span[1] - span[0], span[0]), accept_loss=yes)
        getattr(self.model, mode)([hour for hour in range(*span) if hour not in refused])

    @rule(span=SPANS)
    def retry(self, span: tuple[int, int]) -> None:
        before = len(self.model.lake())
        self.model.retry(range(*span))
        assert self.world.retry(hours(span[1] - span[0], span[0])) == len(self.model.lake()) - before

    @precondition(lambda self: self.model.units)
    @rule(person=st.sampled_from(PEOPLE))
    def erase(self, person: str) -> None:
        self.model.erase(person)
        self.world.erase(person)

    @invariant()
    def each_record_is_where_the_model_says(self) -> None:
        if hasattr(self, "world"):
            for rejected in (False, True):
                found = {(t, o, _without_ids(text)) for t, o, text in self.world.lake_rows(rejected)}
                assert found == self.model.lake(rejected)

    @precondition(lambda self: self.model.units)
    @rule()
    def verify(self) -> None:
        """What the model calls right is right for verify, too."""
        known = self.model.file.topics & self.world.resolved
        lacking = {f"2026-01-01T{h:02}Z" for h, u in self.model.units.items() if known - u.topics}
        landed = {f"2026-01-01T{hour:02}Z" for hour in self.model.units}
        assert {a.slice for a in self.world.findings() if a.slice in landed} == lacking


def _without_ids(text: str) -> str:
    return re.sub(r"hmac256:[0-9a-f]{8}:", "hmac256:", text)


@pytest.mark.parametrize("examples", per_commit([12, 200]))
def test_histories(clickhouse_server, tmp_path, monkeypatch: pytest.MonkeyPatch, examples: int):
    """A pipeline without tables asks the ledger, too: it may have had some."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    LakeHistory.folder = tmp_path
    run_state_machine_as_test(
        LakeHistory,
        settings=settings(
            max_examples=int(os.environ.get("SLUICE_LAKE_HISTORIES", examples)),
            stateful_step_count=6,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
