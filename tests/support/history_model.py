"""A plain model of what must be where after any history of a pipeline: it shares nothing with the product."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

HOURS = 4
RENAMED = 2
"""From this hour on producers send other names for the time and for the person's name."""
TIPS = 3
"""From this hour on their events have a field that the table has no column for."""
PEOPLE = ("p0", "p1", "p2")
TOPICS = ("t", "b")


@dataclass(frozen=True)
class Record:
    """One record of Kafka: its event is what a producer of that hour sends."""

    topic: str
    hour: int
    offset: int

    @property
    def number(self) -> int:
        return self.hour * 100 + self.offset % 10 + (50 if self.topic == "b" else 0)

    @property
    def person(self) -> str:
        return PEOPLE[self.offset % len(PEOPLE)]

    @property
    def kind(self) -> str:
        return "view" if self.offset % 3 == 2 else "click"

    @property
    def event(self) -> dict[str, object]:
        time, name = ("at", "passenger") if self.hour < RENAMED else ("ts", "person")
        stamp = f"2026-01-01T{self.hour:02}:{self.offset % 10 + 10}:00Z"
        tip = {"tip": self.tip} if self.tip else {}
        return {
            "type": self.kind,
            time: stamp,
            name: f"name-{self.number}",
            "uid": self.person,
            "n": self.number,
            **tip,
        }

    @property
    def tip(self) -> int:
        """What producers send from TIPS on."""
        return self.number * 3 if self.hour >= TIPS else 0

    @property
    def value(self) -> str:
        return json.dumps(self.event)

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.offset


@dataclass(frozen=True)
class FileNow:
    """What the pipeline file says."""

    topics: frozenset[str] = frozenset(TOPICS)
    time: str = "at"
    column: str = "passenger"
    vip: str = "no"
    """The DEFAULT of the table's column `vip`, which no event has."""
    shards: int = 1
    """How many servers have the tables; the clicks go by their number, the others by partition."""
    evolve: bool = False
    """The table gets a column for such a field."""
    keys: tuple[str, ...] = ()
    """Those of `mask.uid.hash`, the newest first; none: there is no mask."""

    def reads(self, record: Record) -> bool:
        return self.time in record.event


@dataclass
class UnitModel:
    """One hour: its topics, its records that are rows and those that are rejected, by what its load filled
    the table's columns `rider` and `vip`, and the fields that its landing and then its retries took for the
    time."""

    topics: frozenset[str]
    rows: set[Record]
    rejected: set[Record]
    column: str
    vip: str
    times: list[str]
    tips: bool = False
    """Its load has filled the column that was added."""
    forgotten: bool = False

    def reads(self, record: Record) -> bool:
        return self.times[0] in record.event


@dataclass
class Model:
    """`logs` are Kafka's. `erased` people are in nothing that lands."""

    logs: dict[tuple[str, int], list[Record]]
    file: FileNow = field(default_factory=FileNow)
    units: dict[int, UnitModel] = field(default_factory=dict)
    has_tips: bool = False
    """The table has the column that was added."""
    erased: set[str] = field(default_factory=set)

    def landed_by_file(self, hour: int, topics: frozenset[str]) -> UnitModel:
        records = [
            record
            for topic in sorted(topics)
            for record in self.logs[topic, hour]
            if record.person not in self.erased
        ]
        rows = {record for record in records if self.file.reads(record)}
        return UnitModel(topics, rows, set(records) - rows, self.file.column, self.file.vip, [self.file.time])

    def fill(self, hours: Iterable[int]) -> None:
        for hour in hours:
            if hour not in self.units:
                self.units[hour] = self.landed_by_file(hour, self.file.topics)
                self._load_by_file(hour)

    def _load_by_file(self, hour: int) -> None:
        unit = self.units[hour]
        if self.file.evolve and any(record.kind == "click" and record.tip for record in unit.rows):
            self.has_tips = True
        unit.column, unit.vip, unit.tips = self.file.column, self.file.vip, self.has_tips

    def reload(self, hours: range) -> None:
        self.fill(hours)
        for hour in hours:
            self._load_by_file(hour)

    def repair(self, hours: range) -> None:
        self.fill(hours)

    def reland(self, hours: Iterable[int]) -> None:
        """Each hour keeps its own rules."""
        for hour in hours:
            old = self.units.get(hour)
            topics = self.file.topics | (old.topics if old else frozenset())
            new = self.units[hour] = self.landed_by_file(hour, topics)
            if not old:
                self._load_by_file(hour)
            else:
                records = new.rows | new.rejected
                new.times, new.column, new.vip, new.tips = old.times[:1], old.column, old.vip, old.tips
                new.rows = {record for record in records if old.reads(record)}
                new.rejected = records - new.rows

    def losing(self, mode: str, hours: range) -> list[int]:
        """The hours in which the file of now would reject rows; in a reland, the rules of their landing."""

        def reads(unit: UnitModel, record: Record) -> bool:
            return unit.reads(record) if mode == "reland" else self.file.reads(record)

        units = {hour: self.units[hour] for hour in hours if hour in self.units}
        return [hour for hour, unit in units.items() if not all(reads(unit, r) for r in unit.rows)]

    def remake(self, hours: Iterable[int]) -> None:
        hours = list(hours)
        self.fill(hours)
        for hour in hours:
            unit = self.units[hour]
            if unit.forgotten:
                continue
            records = unit.rows | unit.rejected
            unit.rows = {record for record in records if self.file.reads(record)}
            unit.rejected, unit.times = records - unit.rows, [self.file.time]
            self._load_by_file(hour)

    def forget(self, until: int) -> set[int]:
        """The lake's files go, and the tables keep their rows. Returns the hours of which there were any."""
        hours = {hour for hour, unit in self.units.items() if hour < until and not unit.forgotten}
        for hour in hours:
            self.units[hour].forgotten = True
        return hours

    def forgotten(self, hours: Iterable[int]) -> bool:
        return any(hour in self.units and self.units[hour].forgotten for hour in hours)

    def retry(self, hours: range) -> None:
        for hour in hours:
            if hour in self.units and not self.units[hour].forgotten:
                unit = self.units[hour]
                back = {record for record in unit.rejected if self.file.reads(record)}
                if back and self.file.time not in unit.times:
                    unit.times.append(self.file.time)
                unit.rows |= back
                unit.rejected -= back

    def erase(self, person: str) -> None:
        self.erased.add(person)
        for unit in self.units.values():
            if not unit.forgotten:
                unit.rows = {record for record in unit.rows if record.person != person}
                unit.rejected = {record for record in unit.rejected if record.person != person}

    def lake_rows(self) -> set[tuple[str, int, str]]:
        return {
            (*record.place, record.value)
            for unit in self.units.values()
            if not unit.forgotten
            for record in unit.rows
        }

    def lake_rejected(self) -> set[tuple[str, int, str]]:
        return {
            (*record.place, record.value)
            for unit in self.units.values()
            if not unit.forgotten
            for record in unit.rejected
        }

    def clicks(self) -> set[tuple[str, int, int, str, str, str, int]]:
        """The rows of the clicks' table: topic, offset, n, uid, rider, vip, tip."""
        return {
            (
                *record.place,
                record.number,
                record.person,
                str(record.event.get(unit.column, "")),
                unit.vip,
                record.tip if unit.tips else 0,
            )
            for unit in self.units.values()
            for record in unit.rows
            if record.kind == "click"
        }

    def others(self) -> set[tuple[str, int, str]]:
        """Those of the table of all other types: topic, offset, payload."""
        return {
            (*record.place, record.value)
            for unit in self.units.values()
            for record in unit.rows
            if record.kind != "click"
        }
