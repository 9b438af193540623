"""Events at random: a tree of JSON texts each, and what of it is wrong on purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.pairs.columns import AMOUNTS, COMMON, REAL, SETS, TEXT, TEXTS, WHOLE, Column
from tests.pairs.options import Case
from tests.pairs.texts import TYPES

Tree = dict[str, Any]  # field → JSON text, or a tree

START = datetime(2024, 5, 1, tzinfo=UTC)
LENGTHS = {"15m": 15, "1h": 60, "90m": 90, "1d": 1440}
SLICES = {"15m": 4, "1h": 3, "90m": 3, "1d": 2}
CONFIGURED = ("click", "bid")
EARLY_MINUTES = {"default": 60, "tight": 15, "none": None}
LATE_MINUTES = {"default": None, "tight": 120, "none": None}
_ISO = ("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z", "{:%Y-%m-%dT%H:%M:%S}.{:03d}000+00:00", "{:%Y-%m-%dT%H:%M:%S}.{:03d}")
_LONG = 70_000


def time_path(case: Case) -> tuple[str, ...]:
    return ("meta", "at") if case.time == "nested" else ("at",)


def type_path(case: Case) -> tuple[str, ...] | None:
    return {"field": ("type",), "nested": ("meta", "kind")}.get(case.type)


def put(tree: Tree, path: tuple[str, ...], text: str) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def text_of(tree: Tree) -> str:
    """The tree as JSON, in the order of its fields."""
    parts = (f"{json.dumps(k)}:{text_of(v) if isinstance(v, dict) else v}" for k, v in tree.items())
    return "{" + ",".join(parts) + "}"


@dataclass
class Events:
    """Makes events of one case. Of events for the main table ids count up, so that they fill every partition
    of a narrow view."""

    case: Case
    random: Random
    _main: int = 0
    _types: list[str] = field(default_factory=list)
    _configured: float = 1.0

    def __post_init__(self) -> None:
        many = self.case.max_types == "exceeded"
        self._types = self.random.sample(TYPES, len(TYPES) if many else 4)
        self._configured = 0.5 if many else 0.7

    def kind(self) -> str:
        configured = self.random.random() < self._configured
        return self.random.choice(("click", "click", "bid") if configured else self._types)

    def slice_start(self, number: int) -> datetime:
        return START + timedelta(minutes=number * LENGTHS[self.case.slice])

    def event_time(self, slice_number: int) -> datetime:
        """Mostly in its slice; else at the edges of what is early, late, or before 1970."""
        start, end = self.slice_start(slice_number), self.slice_start(slice_number + 1)
        hours = min(end - start, timedelta(hours=2))  # each event hour is a file
        within = start + timedelta(milliseconds=self.random.randrange(hours // timedelta(milliseconds=1)))
        early, late = EARLY_MINUTES[self.case.bounds], LATE_MINUTES[self.case.bounds]
        edge = timedelta(milliseconds=self.random.choice((-1, 1)))
        odd = [
            end + timedelta(minutes=early or 2000) + edge,
            start - timedelta(minutes=late or 3000) - edge,
            start,
            end - timedelta(milliseconds=1),
            datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ]
        return self.random.choice(odd) if self.random.random() < 0.15 else within

    def make(self, slice_number: int, kind: str) -> Tree:
        """A right event, though a value of it may not fit its column."""
        tree: Tree = {}
        if (path := type_path(self.case)) is not None:
            put(tree, path, json.dumps(kind, ensure_ascii=False))
        self._time(tree, self.event_time(slice_number))
        self._main += kind == "click"
        put(tree, ("id",), str(self._main))
        own = [*COMMON[1:], *SETS[self.case.columns]]
        for column in own:
            if self.random.random() < 0.85 and self._sayable(column.kind):
                put(tree, column.field, self.random.choice(self._texts(column, column.fits)))
        if self.random.random() < 0.15:
            self._spoil(tree, self.random.choice([c for c in own if c.bad and self._sayable(c.kind)]))
        if self.case.length == "long" and self.random.random() < 0.05:
            put(tree, ("user",), json.dumps("x" * _LONG))
        return tree

    def wrong(self, slice_number: int) -> Tree:
        """One that cannot be landed: its type or its time is missing or not understood."""
        tree = self.make(slice_number, "click")
        times, types = ["null"], ["null", '""', json.dumps("t" * 300)]
        if not self.case.decoded:
            times, types = [*times, '"soon"', "true", "{}"], [*types, "5", "[]"]
        spoiled = [] if self.case.time == "record" else [(time_path(self.case), text) for text in times]
        if (path := type_path(self.case)) is not None:
            spoiled += [(path, text) for text in types]
        if spoiled:
            put(tree, *self.random.choice(spoiled))
        return tree

    def _sayable(self, kind: str) -> bool:
        """Whether the format's schema has such a field."""
        return not self.case.decoded or kind in (TEXT, WHOLE, REAL, TEXTS, AMOUNTS)

    def _texts(self, column: Column, texts: tuple[str, ...]) -> list[str]:
        """Those of the texts that the format can say."""
        return [text for text in texts if not self.case.decoded or _is(column.kind, json.loads(text))]

    def _spoil(self, tree: Tree, column: Column) -> None:
        texts = self._texts(column, column.bad)
        if texts:
            put(tree, column.field, self.random.choice(texts))
        elif self.case.decoded:
            return
        if len(column.field) > 1 and not self.case.decoded and self.random.random() < 0.7:
            tree[column.field[0]] = self.random.choice(('"text"', '[{"country": "FR"}]', "[]", "5", "true"))

    def _time(self, tree: Tree, at: datetime) -> None:
        ms = round((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
        if self.case.time == "epoch_ms":
            text = str(ms)
        elif self.case.time == "epoch_s":
            text = f"{'-' if ms < 0 else ''}{abs(ms) // 1000}.{abs(ms) % 1000:03d}".rstrip("0").rstrip(".")
        else:
            shape = _ISO[0] if self.case.decoded else self.random.choice(_ISO)
            text = json.dumps(shape.format(at, at.microsecond // 1000))
        put(tree, time_path(self.case), text)


def _is(kind: str, value: Any) -> bool:
    """Whether a schema's field of the kind holds the value; null where it is absent."""
    if value is None:
        return True
    if kind == WHOLE:
        return type(value) is int
    if kind == REAL:
        return type(value) is float
    if kind == TEXTS:
        return isinstance(value, list)
    if kind == AMOUNTS:
        return isinstance(value, dict) and all(type(amount) is int for amount in value.values())
    return isinstance(value, str)
